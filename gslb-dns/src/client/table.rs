//! Tables for people, and numbers as people read them.

use comfy_table::{Table, TableStyle, presets};

/// A table without lines, as other command line tools print them.
pub(super) struct Sheet(Table);

impl Sheet {
    pub(super) fn new<const N: usize>(header: [&str; N]) -> Self {
        Sheet::with_header(header.map(str::to_owned).to_vec())
    }

    pub(super) fn with_header(header: Vec<String>) -> Self {
        let mut table = Table::new();
        table.load_style(STYLE).set_header(header);
        Sheet(table)
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.0.add_row(cells.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
    }

    pub(super) fn text(&mut self) -> String {
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.0.trim_fmt() + "\n"
    }
}

const STYLE: TableStyle = presets::NOTHING;

/// Without characters that would do something to a terminal: some of the words come from other machines (threat T11).
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if c.is_control() { c.escape_default().to_string() } else { c.to_string() }
                .chars()
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What is not known.
pub(super) const NOTHING: &str = "-";

/// The text, or a dash.
pub(super) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), text)
}

/// A duration in its two largest units.
pub(super) fn duration(ms: u64) -> String {
    let (s, m, h, d) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..60_000 => format!("{s}.{}s", ms % 1000 / 100),
        60_000..3_600_000 => format!("{m}m{:02}s", s % 60),
        3_600_000..86_400_000 => format!("{h}h{:02}m", m % 60),
        _ => format!("{d}d{:02}h", h % 24),
    }
}

/// Seconds until something, or since.
pub(super) fn seconds_left(seconds: i64) -> String {
    let length = duration(seconds.unsigned_abs().saturating_mul(1000));
    if seconds < 0 { format!("{length} ago") } else { format!("in {length}") }
}

/// A round trip or response time.
pub(super) fn time(us: u64) -> String {
    format!("{}.{:03} ms", us / 1000, us % 1000)
}

/// An amount of data.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes / 100;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while tenths >= 10_000
        && let Some(next) = units.next()
    {
        tenths /= 1000;
        unit = Some(next);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, unit.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_shows_its_two_largest_units() {
        let shown =
            [0, 999, 1000, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 90_000_000].map(duration);
        let expected = ["0ms", "999ms", "1.0s", "59.9s", "1m00s", "59m59s", "1h00m", "23h59m", "1d01h"];
        assert_eq!(shown, expected);
        assert_eq!([seconds_left(90), seconds_left(-90)], ["in 1m30s", "1m30s ago"]);
    }

    #[test]
    fn an_amount_has_one_digit_after_the_point() {
        let shown = [0, 999, 1000, 123_456, 999_999, 1_000_000, 5_432_100_000].map(size);
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "123.4 kB", "999.9 kB", "1.0 MB", "5.4 GB"]);
        assert_eq!(size(u64::MAX), "18446.7 PB");
    }

    #[test]
    fn what_would_move_the_cursor_is_spelt_out() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{9b}é"), "a\\u{1b}[2Jb\\nc\\u{9b}é");
    }
}
