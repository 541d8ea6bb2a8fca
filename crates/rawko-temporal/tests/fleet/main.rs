//! Fleets on a real Temporal server, with real worker processes, real repositories and a model server on loopback.
//!
//! The server is the `temporal` program that `RAWKO_TEST_TEMPORAL` names, or the one in `PATH`; `scripts/test-fleet.sh`
//! installs it. Without it these tests are skipped.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod basic;
mod handover;
mod limits;
mod long;
mod people;
mod pushes;
mod scale;
mod traces;
mod versions;
mod worker;
mod workers;
mod world;

use libtest_mimic::{Arguments, Trial};

/// A trial of each function, by its path.
macro_rules! trials {
    ($($test:path),* $(,)?) => {
        vec![$(Trial::test(stringify!($test), || {
            $test();
            Ok(())
        })),*]
    };
}

fn main() {
    // Before anything else: this program is also the helper that confines commands, and each of the workers.
    rawko_tools::run_helper_if_asked();
    if worker::run_if_asked() || handover::run_if_asked() {
        return;
    }
    let tests = trials![
        basic::a_task_ends_the_same_in_its_journal_and_on_the_engine,
        long::a_task_goes_on_in_new_runs_of_its_workflow_and_each_step_is_done_once,
        long::an_answer_that_is_not_applied_yet_is_kept_over_a_new_run,
        long::a_task_with_large_results_keeps_them_out_of_the_engines_history,
        people::an_approval_counts_once_and_only_for_the_question_that_waits,
        people::a_denied_call_is_not_made,
        people::a_secret_that_is_said_to_a_task_is_kept_nowhere,
        people::a_question_waits_as_long_as_the_configuration_says,
        people::a_task_is_cancelled_while_it_waits_for_an_answer,
        people::a_cancelled_agents_child_is_dead_when_the_task_has_ended,
        people::a_task_is_steered_and_what_would_change_nothing_is_refused,
        people::a_task_that_cannot_begin_is_cancelled_and_released,
        people::a_task_can_be_seen_without_a_worker_and_begins_once,
        workers::a_worker_killed_between_steps_does_none_of_them_twice,
        workers::a_command_whose_worker_is_killed_is_of_unknown_outcome_and_soon,
        workers::a_verification_whose_worker_is_killed_is_done_again,
        workers::an_untrusting_worker_ends_no_task,
        workers::a_worker_without_a_key_hands_model_calls_back,
        workers::a_store_that_is_gone_is_not_made_anew_and_tasks_wait_for_it,
        workers::a_worker_that_thaws_overwrites_nothing,
        workers::a_worker_that_is_asked_to_end_finishes_its_step_and_another_one_takes_over_at_once,
        workers::two_workers_share_the_work_and_keep_their_slots,
        workers::what_a_worker_keeps_of_a_task_that_ended_elsewhere_is_removed,
        basic::what_a_verification_leaves_is_on_the_branch,
        workers::a_worker_may_begin_before_the_engine,
        workers::an_engine_killed_under_load_loses_no_task_and_repeats_no_commit,
        workers::a_result_is_single_after_an_outage_that_is_longer_than_a_heartbeat,
        versions::a_history_of_today_is_replayed_and_a_changed_one_is_not,
        versions::a_task_stays_with_the_version_that_began_it,
        versions::a_panic_in_an_activity_is_an_attempt_that_failed,
        pushes::a_step_that_was_pushed_and_not_reported_is_not_done_again,
        pushes::a_commit_that_the_repository_does_not_take_is_an_error_of_its_step,
        pushes::the_late_work_of_an_abandoned_step_does_not_stay,
        pushes::a_branch_that_somebody_removed_is_there_at_the_end,
        pushes::somebody_elses_commit_on_the_branch_stays,
        limits::tasks_of_a_submission_share_its_budget,
        limits::further_tasks_share_the_budget_of_their_submission,
        limits::a_submission_has_a_name_without_a_budget,
        limits::a_call_without_a_price_is_not_made_on_a_budget,
        limits::a_worker_without_keys_does_all_but_model_calls,
        limits::a_rate_limit_holds_for_all_workers_together,
        limits::a_result_that_is_too_large_is_a_clear_error_and_not_the_end,
        limits::a_task_that_cannot_begin_says_why,
        limits::a_task_that_the_engine_has_forgotten_is_in_the_store,
        limits::a_worker_leaves_alone_what_it_is_not_for,
        limits::a_problem_that_holds_a_task_up_is_shown,
        limits::a_model_call_that_no_worker_makes_is_shown,
        limits::a_merge_request_is_made_once_at_a_good_end,
        handover::a_session_begun_by_a_process_that_was_killed_goes_on_in_the_fleet,
        handover::a_released_task_leaves_its_session_unfinished_and_its_work_on_the_branch,
        versions::a_panic_in_a_workflow_is_a_try_of_the_engine_and_not_the_end,
        limits::an_urgent_task_is_served_first,
        limits::a_submitter_of_few_tasks_does_not_wait_for_one_of_many,
        traces::the_spans_of_a_session_are_one_trace_across_workers,
        scale::many_tasks,
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}
