//! Lists that come page after page, with bounds.

/// The most pages of one list.
const MOST_PAGES: usize = 64;
/// The most entries of one list.
pub(crate) const MOST_ENTRIES: usize = 1_000;

/// The pages of a list that came so far.
pub(crate) struct Pages<T> {
    /// What they list.
    pub(crate) entries: Vec<T>,
    /// The page that comes next; absent after the last one.
    next: Option<Option<String>>,
    /// The cursors of the pages that were asked for.
    asked: Vec<Option<String>>,
}

impl<T> Pages<T> {
    /// Before the first page.
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), next: Some(None), asked: Vec::new() }
    }

    /// The cursor of the page to ask for, while there is one and there are not enough entries.
    pub(crate) fn next(&mut self) -> Option<Option<String>> {
        if self.asked.len() == MOST_PAGES || self.entries.len() > MOST_ENTRIES {
            return None;
        }
        let next = self.next.take()?;
        self.asked.push(next.clone());
        Some(next)
    }

    /// Adds a page, and the cursor of the one after it. A list that leads back to a page of its own, or to one without a
    /// name, ends there.
    pub(crate) fn add(&mut self, entries: Vec<T>, next: Option<String>) {
        self.entries.extend(entries);
        self.next = next.filter(|next| !next.is_empty()).map(Some).filter(|next| !self.asked.contains(next));
    }

    /// Whether this is the whole list.
    pub(crate) fn is_whole(&self) -> bool {
        self.next.is_none() && self.entries.len() <= MOST_ENTRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_with_its_last_page_or_when_there_is_too_much() {
        let mut pages = Pages::new();
        assert_eq!(pages.next(), Some(None));
        pages.add(vec![1], Some("b".to_owned()));
        assert_eq!(pages.next(), Some(Some("b".to_owned())));
        pages.add(vec![2], None);
        assert_eq!((pages.next(), pages.is_whole(), pages.entries), (None, true, vec![1, 2]));

        let mut endless = Pages::new();
        let mut asked = 0;
        while endless.next().is_some() {
            asked += 1;
            endless.add(vec![0], Some(format!("more {asked}")));
        }
        assert_eq!((asked, endless.is_whole()), (MOST_PAGES, false));
        // Some servers give the last cursor again, or an empty one.
        for again in ["b", ""] {
            let mut round = Pages::new();
            let mut entries = vec![3, 2, 1];
            while round.next().is_some() {
                round.add(
                    entries.pop().into_iter().collect(),
                    Some(if entries.len() == 2 { "b" } else { again }.to_owned()),
                );
            }
            assert_eq!((round.is_whole(), round.entries), (true, vec![1, 2]), "{again:?}");
        }
        let mut huge = Pages::new();
        let _ = huge.next();
        huge.add(vec![0; MOST_ENTRIES + 1], Some("more".to_owned()));
        assert_eq!((huge.next(), huge.is_whole()), (None, false));
    }
}
