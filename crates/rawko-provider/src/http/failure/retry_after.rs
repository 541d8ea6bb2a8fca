//! Reads from the headers how long a server asks to wait.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// How long the server asks to wait: `retry-after-ms`, else `retry-after` in seconds or as a date.
pub(super) fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let from_seconds = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).ok().map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    };
    if let Some(ms) = text("retry-after-ms").and_then(|v| v.parse::<f64>().ok()) {
        return from_seconds(ms / 1_000.0);
    }
    let value = text("retry-after")?;
    match value.parse::<f64>() {
        Ok(seconds) => from_seconds(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            let wait = date.duration_since(now).unwrap_or_default();
            u64::try_from(wait.as_millis()).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wait(headers: &[(&'static str, &str)], expected: Option<u64>) {
        let map = headers
            .iter()
            .map(|(n, v)| (reqwest::header::HeaderName::from_static(n), v.parse().expect("a header value")));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after_ms(&map.collect(), now), expected, "{headers:?}");
    }

    #[test]
    fn waits_are_read_in_every_form() {
        check_wait(&[("retry-after", "3")], Some(3_000));
        check_wait(&[("retry-after", "0.5")], Some(500));
        check_wait(&[("retry-after", "3"), ("retry-after-ms", "250")], Some(250));
        check_wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")], Some(10_000));
        check_wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")], Some(0));
        check_wait(&[("retry-after", "-1")], None);
        check_wait(&[("retry-after", "soon")], None);
        check_wait(&[], None);
    }
}
