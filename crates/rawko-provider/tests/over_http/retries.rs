//! When and how often a call is tried again.

use std::time::{Duration, Instant};

use rawko_core::error::ErrorCode;
use rawko_core::request::ToolChoice;
use rawko_core::retry::RetryPolicy;
use rawko_provider::ProviderSettings;
use serde_json::json;
use testkit::{Answer, ErrorResponse, ModelServer, Wire};

use super::trial::{ALL, ask, provider, question, try_answers, try_with};

/// Sends a request to a server that gives this answer twice and then a good one.
async fn check(answer: Answer, code: ErrorCode, again: bool) {
    for wire in ALL {
        let (trial, server) =
            try_answers(wire, vec![answer.clone(), answer.clone(), Answer::text("fine")]).await;
        let said = format!("{wire:?} {answer:?}");
        if again {
            assert_eq!(trial.message().0.text(), "fine", "{said}");
            assert_eq!(trial.retry_codes(), [code, code], "{said}");
            assert_eq!(server.exchanges().len(), 3, "{said}");
        } else {
            assert_eq!((trial.error().code, trial.retries.len()), (code, 0), "{said}");
            assert_eq!(server.exchanges().len(), 1, "{said}");
        }
    }
}

#[tokio::test]
async fn only_a_failure_that_may_pass_is_retried() {
    check(Answer::overloaded(), ErrorCode::Overloaded, true).await;
    check(Answer::rate_limited("0"), ErrorCode::RateLimited, true).await;
    for (status, code) in [
        (408, ErrorCode::Timeout),
        (409, ErrorCode::Overloaded),
        (500, ErrorCode::Overloaded),
        (502, ErrorCode::Overloaded),
        (503, ErrorCode::Overloaded),
        (504, ErrorCode::Timeout),
    ] {
        check(Answer::refuse(status, "api_error", "try later"), code, true).await;
    }
    check(Answer::refuse(429, "rate_limit_error", "slow down"), ErrorCode::RateLimited, true).await;
    let page = "<html><head><title>Bad gateway</title></head></html>".to_owned();
    let page = ErrorResponse { status: 502, body: Some(page), ..ErrorResponse::default() };
    check(Answer::Refuse(page), ErrorCode::Overloaded, true).await;
    check(Answer::unauthorized(), ErrorCode::AuthenticationFailed, false).await;
    check(Answer::refuse(403, "permission_error", "no"), ErrorCode::AuthenticationFailed, false).await;
    check(Answer::context_too_long(), ErrorCode::ContextLengthExceeded, false).await;
    check(Answer::refuse(404, "not_found_error", "model: nope"), ErrorCode::ModelUnavailable, false).await;
    check(Answer::refuse(400, "invalid_request_error", "bad field"), ErrorCode::InvalidRequest, false).await;
    check(Answer::refuse(429, "insufficient_quota", "pay first"), ErrorCode::AuthenticationFailed, false)
        .await;
}

/// Money that is spent is no rate limit to wait for, and no wrong key either.
#[tokio::test]
async fn spent_credit_is_reported_as_such_and_not_waited_for() {
    let anthropic = "Your credit balance is too low to access the Anthropic API.";
    let openai = "You exceeded your current quota, please check your plan and billing details.";
    for (status, kind, words) in [
        (400, "invalid_request_error", anthropic),
        (429, "insufficient_quota", openai),
        (402, "payment_required", "Insufficient Balance"),
    ] {
        for wire in ALL {
            let refused = Answer::refuse(status, kind, words).header("retry-after", "1");
            let (trial, server) = try_answers(wire, vec![refused, Answer::text("not this")]).await;
            let error = trial.error();
            assert_eq!((error.code, trial.retries.len()), (ErrorCode::AuthenticationFailed, 0), "{wire:?}");
            assert_eq!(error.message, format!("the account's credit is used up: {words}"), "{wire:?}");
            assert_eq!(server.exchanges().len(), 1);
        }
    }
}

#[tokio::test]
async fn attempts_are_counted_and_the_last_error_tells_all() {
    for wire in ALL {
        let refused = Answer::overloaded().header("request-id", "req_42");
        let (trial, server) = try_answers(wire, vec![refused; 9]).await;
        assert_eq!(server.exchanges().len(), 3);
        let error = trial.error();
        assert_eq!(error.message, "Overloaded (3 attempts; all attempts are used up)");
        assert_eq!((error.status, error.provider.as_deref()), (Some(529), Some("test")));
        assert_eq!(error.request_id.as_deref(), Some("req_42"));
    }
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_kept() {
    for wire in ALL {
        let asked = Answer::refuse(429, "rate_limit_error", "slow").header("retry-after-ms", "120");
        let begun = Instant::now();
        let (trial, server) = try_answers(wire, vec![asked, Answer::text("fine")]).await;
        assert_eq!(trial.message().0.text(), "fine");
        assert_eq!(trial.retries[0].1, 120);
        let arrived: Vec<Instant> = server.asked().iter().map(|a| a.arrived).collect();
        assert!(arrived[1] - arrived[0] >= Duration::from_millis(120), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_wait_beyond_the_cap_is_for_the_machine_to_decide() {
    for wire in ALL {
        let (trial, server) = try_answers(wire, vec![Answer::rate_limited("3600"), Answer::text("no")]).await;
        assert_eq!(
            (trial.error().code, trial.error().retry_after_ms),
            (ErrorCode::RateLimited, Some(3_600_000))
        );
        assert_eq!(server.exchanges().len(), 1);
    }
}

#[tokio::test]
async fn a_deadline_ends_the_attempts() {
    for wire in ALL {
        let hurried = |settings: ProviderSettings| {
            let retry = RetryPolicy { deadline_ms: 100, ..settings.retry };
            ProviderSettings { retry, ..settings }
        };
        let asked = Answer::refuse(429, "rate_limit_error", "slow").header("retry-after-ms", "400");
        let (trial, server) = try_with(wire, vec![asked, Answer::text("no")], question(), hurried).await;
        assert!(trial.error().message.contains("no time for another attempt"), "{}", trial.error().message);
        assert_eq!(server.exchanges().len(), 1);
    }
}

#[tokio::test]
async fn what_a_model_does_not_take_is_left_out_and_remembered() {
    for wire in ALL {
        let server = ModelServer::start(|asked| {
            let has = |field: &str| asked.json.get(field).is_some();
            if asked.forced_tool().is_some() {
                let message = "tool_choice: type \"tool\" and \"any\" are not supported for this model.";
                Answer::refuse(400, "invalid_request_error", message)
            } else if has("temperature") {
                Answer::refuse(400, "invalid_request_error", "`temperature` is deprecated for this model.")
            } else {
                Answer::decision(json!({"decision": "COMPLETE"}))
            }
        });
        let provider = provider(&server, wire);
        let mut asked = question();
        asked.tools = [super::trial::tool("decide")].into();
        asked.tool_choice = ToolChoice::Tool { name: "decide".into() };
        let trial = ask(&mut *provider.open(), asked.clone()).await;
        assert_eq!(trial.message().0.tool_calls().count(), 1, "{wire:?}");
        assert_eq!(server.exchanges().len(), 3);
        // Another session of the same provider knows it too.
        let trial = ask(&mut *provider.open(), asked).await;
        assert_eq!((trial.retries.len(), server.exchanges().len()), (0, 4), "{wire:?}");
    }
}

#[tokio::test]
async fn a_rejection_that_nothing_helps_against_stands() {
    let refused = Answer::refuse(400, "invalid_request_error", "`temperature` must be at most 1");
    let (trial, server) = try_answers(Wire::Claude, vec![refused.clone(), refused.clone(), refused]).await;
    assert_eq!(trial.error().code, ErrorCode::InvalidRequest);
    assert_eq!(server.exchanges().len(), 2, "once with and once without it");
}

#[tokio::test]
async fn a_rejection_of_what_was_not_sent_is_not_asked_again() {
    for wire in ALL {
        let mut asked = question();
        asked.temperature = None;
        let refused = Answer::refuse(400, "invalid_request_error", "temperature and tool_choice are odd");
        let (trial, server) = try_with(wire, vec![refused; 4], asked, |s| s).await;
        assert_eq!(trial.error().code, ErrorCode::InvalidRequest);
        assert_eq!(server.exchanges().len(), 1, "{wire:?}");
    }
}

#[tokio::test]
async fn a_server_may_know_better_whether_it_helps() {
    for wire in ALL {
        let never = Answer::overloaded().header("x-should-retry", "false");
        let (trial, server) = try_answers(wire, vec![never, Answer::text("no")]).await;
        assert_eq!((trial.error().code, server.exchanges().len()), (ErrorCode::Overloaded, 1));
        let again = Answer::refuse(400, "invalid_request_error", "odd").header("x-should-retry", "true");
        let (trial, _server) = try_answers(wire, vec![again, Answer::text("fine")]).await;
        assert_eq!(trial.message().0.text(), "fine");
    }
}
