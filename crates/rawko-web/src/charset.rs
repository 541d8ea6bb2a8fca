//! The characters of a text: what a byte order mark, the server or the document itself says they are written in.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Where a document says its encoding, if it does.
const HEAD: usize = 1_024;

/// The text of `bytes`. `of_header` is the encoding that the server named. Invalid bytes become the replacement
/// character.
pub(crate) fn text(bytes: &[u8], of_header: Option<&str>, is_markup: bool) -> String {
    let named = of_header.and_then(|label| Encoding::for_label(label.as_bytes()));
    let declared = || is_markup.then(|| declared(bytes)).flatten();
    let usual = || if std::str::from_utf8(whole_characters(bytes)).is_ok() { UTF_8 } else { WINDOWS_1252 };
    // A byte order mark counts more than anything that is said.
    let (text, _, _) = named.or_else(declared).unwrap_or_else(usual).decode(bytes);
    text.into_owned()
}

/// Without the last character if it is cut off.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        Ok(_) | Err(_) => bytes,
    }
}

/// The encoding that HTML (`<meta charset>`) or XML (`encoding="…"`) names at its beginning.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..HEAD).unwrap_or(bytes).to_ascii_lowercase();
    let after = |name: &[u8]| {
        let at = memchr::memmem::find(&head, name)? + name.len();
        let rest = head.get(at..)?.trim_ascii_start().strip_prefix(b"=")?;
        let rest = rest.trim_ascii_start();
        let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
        let end =
            rest.iter().position(|byte| matches!(byte, b'"' | b'\'' | b';' | b'>' | b'/' | b'?' | b' '));
        Encoding::for_label(rest.get(..end.unwrap_or(rest.len()))?)
    };
    let declared = after(b"charset").or_else(|| after(b"encoding"))?;
    // It could be read, so it is not written like that.
    Some(if declared == UTF_16LE || declared == UTF_16BE { UTF_8 } else { declared })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], header: Option<&str>, expected: &str) {
        assert_eq!(text(bytes, header, true), expected, "{header:?}");
    }

    #[test]
    fn the_encoding_is_found_where_it_is_said() {
        check("grün".as_bytes(), None, "grün");
        check(b"gr\xfcn", None, "grün");
        check(b"gr\xfcn", Some("iso-8859-1"), "grün");
        check("grün".as_bytes(), Some("no-such"), "grün");
        check(b"\x83n\x83\x8d\x81[", Some("shift_jis"), "ハロー");
        check(b"\xff\xfeh\0i\0", Some("utf-8"), "hi");
        check(b"h\0i\0", Some("utf-16le"), "hi");
        check("\u{feff}hi".as_bytes(), Some("iso-8859-1"), "hi");
        check(b"<meta charset=\"windows-1251\">\xcf\xf0", None, "<meta charset=\"windows-1251\">Пр");
        check(b"<meta CharSet = koi8-r >\xd0\xd2", None, "<meta CharSet = koi8-r >пр");
        check(
            b"<meta content='text/html; charset=gbk'>\xc4\xe3",
            None,
            "<meta content='text/html; charset=gbk'>你",
        );
        check(b"<?xml encoding='iso-8859-2'?>\xb3", None, "<?xml encoding='iso-8859-2'?>ł");
        check("<meta charset=utf-16>ü".as_bytes(), None, "<meta charset=utf-16>ü");
        check(b"a\xffb", Some("utf-8"), "a\u{fffd}b");
        // The last character was cut off by the limit.
        check(&"ü€".as_bytes()[..4], None, "ü\u{fffd}");
    }

    #[test]
    fn plain_text_says_nothing_of_itself() {
        assert_eq!(text(b"charset=utf-8 \xfc", None, false), "charset=utf-8 ü");
    }
}
