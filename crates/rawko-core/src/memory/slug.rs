//! A file name from a title.

use super::words::words;

/// Most bytes of a slug.
const MAX_BYTES: usize = 60;

/// Words of the title in ASCII, joined by `-`; `memory` where there are none. It never begins with a point or a dash, so that it hides nothing
/// and is no option.
#[must_use]
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    for word in words(title) {
        let ascii: String = word.chars().map(transcribe).collect::<Vec<_>>().concat();
        if ascii.is_empty() {
            continue;
        }
        if slug.len() + ascii.len() + 1 > MAX_BYTES {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&ascii);
    }
    if slug.is_empty() { "memory".to_owned() } else { slug }
}

fn transcribe(c: char) -> String {
    match c {
        'ä' => "ae".to_owned(),
        'ö' => "oe".to_owned(),
        'ü' => "ue".to_owned(),
        'à' | 'á' | 'â' | 'ã' | 'å' => "a".to_owned(),
        'è' | 'é' | 'ê' | 'ë' => "e".to_owned(),
        'ì' | 'í' | 'î' | 'ï' => "i".to_owned(),
        'ò' | 'ó' | 'ô' | 'õ' | 'ø' => "o".to_owned(),
        'ù' | 'ú' | 'û' => "u".to_owned(),
        'ç' => "c".to_owned(),
        'ñ' => "n".to_owned(),
        c if c.is_ascii_alphanumeric() => c.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn titles_become_names() {
        let check = |title: &str, expected: &str| assert_eq!(slug(title), expected);
        check("OAuth2 integration was considered too broad", "oauth2-integration-was-considered-too-broad");
        check("Größe der Straße", "groesse-der-strasse");
        check("../../etc/passwd", "etc-passwd");
        check("認証", "memory");
        check("-rf .hidden", "rf-hidden");
    }

    proptest! {
        #[test]
        fn any_title_becomes_a_harmless_name(title in "\\PC{0,120}") {
            let slug = slug(&title);
            prop_assert!(!slug.is_empty() && slug.len() <= MAX_BYTES);
            prop_assert!(slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{slug}");
            prop_assert!(!slug.starts_with('-'));
        }
    }
}
