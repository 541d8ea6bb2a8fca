//! Numbers for people: lengths of time, tokens, money.

use rawko_core::Usage;

/// `450 ms`, `3.2 s`, `2 m 05 s`, `1 h 02 m`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// `950`, `12.3k`, `1.2M`. The last digit is cut, not rounded.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Prefix for the figures of a usage: `about ` if some are estimates, otherwise nothing.
pub(crate) fn about(usage: &Usage) -> &'static str {
    if usage.estimated { "about " } else { "" }
}

/// `$0.0042`, `$1.25` or `cost unknown`.
pub(crate) fn cost(usd: Option<f64>) -> String {
    match usd {
        None => "cost unknown".to_owned(),
        Some(usd) if usd > 0.0 && usd < 1.0 => format!("${usd:.4}"),
        Some(usd) => format!("${usd:.2}"),
    }
}

/// A number with what it counts: `1 line`, `3 lines`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How long ago, in the largest unit that fits: `45 s`, `12 m`, `7 h`, `3 d`.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} m", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_printed_in_its_two_largest_units() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (3_260, "3.2 s"),
            (59_999, "59.9 s"),
            (125_000, "2 m 05 s"),
            (3_725_000, "1 h 02 m"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration(ms), expected);
        }
    }

    #[test]
    fn tokens_and_money_are_short() {
        for (count, expected) in [(0, "0"), (999, "999"), (12_345, "12.3k"), (1_250_000, "1.2M")] {
            assert_eq!(tokens(count), expected);
        }
        let costs = [
            (None, "cost unknown"),
            (Some(0.0), "$0.00"),
            (Some(0.00421), "$0.0042"),
            (Some(1.254), "$1.25"),
        ];
        for (usd, expected) in costs {
            assert_eq!(cost(usd), expected);
        }
    }

    #[test]
    fn age_is_shown_in_its_largest_unit() {
        for (seconds, expected) in
            [(0, "0 s"), (59, "59 s"), (60, "1 m"), (7_199, "1 h"), (86_399, "23 h"), (200_000, "2 d")]
        {
            assert_eq!(age(seconds * 1_000), expected);
        }
    }
}
