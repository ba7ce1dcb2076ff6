//! Zone data: what is read, what is refused, and that whatever is read can be decoded by others.
