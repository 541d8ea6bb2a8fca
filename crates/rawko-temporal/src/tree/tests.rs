pub(super) fn count() {}
