//! The whole terminal: a page that is drawn in place, and keys.

use std::io::{self, Write, stdout};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{
        self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
        LeaveAlternateScreen,
    },
};

/// A page that fills the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Lines at the top.
    pub head: Vec<String>,
    /// Lines in between, which scroll if they do not fit.
    pub body: Vec<String>,
    /// Lines below them.
    pub foot: Vec<String>,
    /// Whether the cursor is at the end of the last line.
    pub cursor: bool,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    /// The end of a line.
    Enter,
    /// Deletes the last character.
    Backspace,
    /// Deletes the line.
    ClearLine,
    /// Ctrl-C or Ctrl-D.
    Interrupt,
    /// This many lines up (negative) or down.
    Scroll(isize),
    /// Another key, or a new size of the terminal. The page is drawn again.
    Redraw,
}

/// Lines of a page up and down.
const SCROLL_LINES: isize = 10;

impl Key {
    /// The key of an event.
    pub fn of(event: &Event) -> Key {
        let Event::Key(key) = event else { return Key::Redraw };
        if key.kind == KeyEventKind::Release {
            return Key::Redraw;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if control => Key::Interrupt,
            KeyCode::Char('u' | 'w') if control => Key::ClearLine,
            KeyCode::Char('h') if control => Key::Backspace,
            KeyCode::Char(char) if !control => Key::Char(char),
            KeyCode::Enter => Key::Enter,
            KeyCode::Backspace => Key::Backspace,
            KeyCode::Esc => Key::ClearLine,
            KeyCode::Up => Key::Scroll(-1),
            KeyCode::Down => Key::Scroll(1),
            KeyCode::PageUp => Key::Scroll(-SCROLL_LINES),
            KeyCode::PageDown => Key::Scroll(SCROLL_LINES),
            _ => Key::Redraw,
        }
    }
}

/// The terminal while it shows pages. Dropping it restores the terminal.
#[derive(Debug)]
pub struct Screen {
    scroll: usize,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is no terminal.
    pub fn open() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        // From here on, dropping restores the terminal.
        let screen = Screen { scroll: 0 };
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Moves the body up or down at the next drawing.
    pub fn scroll(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines);
    }

    /// Draws the page.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, page: &Page) -> io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let lines = compose(page, usize::from(columns), usize::from(rows), &mut self.scroll);
        let mut out = stdout().lock();
        queue!(out, BeginSynchronizedUpdate, Hide)?;
        for (row, line) in (0..rows).zip(&lines) {
            queue!(out, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        if lines.len() < usize::from(rows) {
            queue!(out, MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown))?;
        }
        if let (true, Some(last)) = (page.cursor, lines.last()) {
            let column = seen(last).min(usize::from(columns).saturating_sub(1));
            queue!(out, MoveTo(column as u16, lines.len() as u16 - 1), Show)?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = execute!(stdout(), Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// The lines of a page on a terminal of this size. The foot is always visible, and the scroll is kept within the body.
pub fn compose(page: &Page, columns: usize, rows: usize, scroll: &mut usize) -> Vec<String> {
    let foot: Vec<String> = page.foot.iter().flat_map(|line| wrap(line, columns)).collect();
    let mut lines: Vec<String> = page.head.iter().map(|line| clip(line, columns)).collect();
    let room = rows.saturating_sub(lines.len() + foot.len());
    if page.body.len() <= room {
        *scroll = 0;
        lines.extend(page.body.iter().map(|line| clip(line, columns)));
    } else {
        // One line says that there is more.
        let window = room.saturating_sub(1);
        *scroll = (*scroll).min(page.body.len() - window);
        lines.extend(page.body.iter().skip(*scroll).take(window).map(|line| clip(line, columns)));
        if room > 0 {
            let (above, below) = (*scroll, page.body.len() - *scroll - window);
            lines.push(clip(&format!("… {above} lines above, {below} below: arrow keys, or a larger window"), columns));
        }
    }
    lines.extend(foot);
    // A terminal that is too small shows the end, with the input.
    lines.split_off(lines.len().saturating_sub(rows))
}

/// The width of a line in columns. Control sequences take none.
fn seen(line: &str) -> usize {
    pieces(line).filter(|(_, seen)| *seen).count()
}

/// The characters of a line, and whether each is visible.
fn pieces(line: &str) -> impl Iterator<Item = (char, bool)> {
    let mut hidden = false;
    line.chars().map(move |char| {
        if char == '\x1b' {
            hidden = true;
        }
        let seen = !hidden;
        if hidden && char.is_ascii_alphabetic() {
            hidden = false;
        }
        (char, seen)
    })
}

/// The start of a line, as much as fits.
fn clip(line: &str, columns: usize) -> String {
    if seen(line) <= columns {
        return line.to_owned();
    }
    let (mut text, mut used) = (String::new(), 0);
    for (char, seen) in pieces(line) {
        if seen && used + 1 == columns {
            text.push('…');
        }
        if !seen || used + 1 < columns {
            text.push(char);
        }
        used += usize::from(seen);
    }
    text
}

/// Breaks a line at spaces. Lines with colours are cut instead.
fn wrap(line: &str, columns: usize) -> Vec<String> {
    if seen(line) <= columns || columns == 0 {
        return vec![line.to_owned()];
    }
    if line.contains('\x1b') {
        return vec![clip(line, columns)];
    }
    let (mut lines, mut rest): (Vec<String>, Vec<char>) = (Vec::new(), line.chars().collect());
    while rest.len() > columns {
        let broken = rest[..=columns].iter().rposition(|char| *char == ' ').filter(|at| *at > 0);
        let next = rest.split_off(broken.map_or(columns, |at| at + 1));
        lines.push(rest.iter().collect::<String>().trim_end().to_owned());
        rest = next;
    }
    lines.push(rest.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn page(body: usize) -> Page {
        Page {
            head: vec!["hamlet".into()],
            body: (0..body).map(|row| format!("row {row}")).collect(),
            foot: vec!["B6 is held: choose others".into(), "> b5".into()],
            cursor: true,
        }
    }

    fn composed(page: &Page, columns: usize, rows: usize, scroll: &mut usize) -> String {
        let lines = compose(page, columns, rows, scroll);
        assert!(lines.len() <= rows, "more lines than rows");
        assert!(lines.iter().all(|line| seen(line) <= columns), "wider than the terminal");
        lines.join("\n") + "\n"
    }

    #[test]
    fn the_foot_is_always_there_and_the_body_scrolls() {
        expect![[r#"
            hamlet
            row 0
            row 1
            B6 is held: choose others
            > b5
        "#]]
        .assert_eq(&composed(&page(2), 40, 10, &mut 3));
        let mut scroll = 0;
        expect![[r#"
            hamlet
            row 0
            row 1
            row 2
            … 0 lines above, 6 below: arrow keys, o…
            B6 is held: choose others
            > b5
        "#]]
        .assert_eq(&composed(&page(9), 40, 7, &mut scroll));
        scroll = 100;
        expect![[r#"
            hamlet
            row 6
            row 7
            row 8
            … 6 lines above, 0 below: arrow keys, o…
            B6 is held: choose others
            > b5
        "#]]
        .assert_eq(&composed(&page(9), 40, 7, &mut scroll));
        assert_eq!(scroll, 6);
        expect![[r#"
            B6 is held:
            choose
            others
            > b5
        "#]]
        .assert_eq(&composed(&page(9), 12, 4, &mut scroll));
        expect![[r#"
            > b5
        "#]]
        .assert_eq(&composed(&page(9), 12, 1, &mut scroll));
        assert_eq!(compose(&page(9), 0, 0, &mut scroll), Vec::<String>::new());
    }

    #[test]
    fn colours_take_no_columns() {
        let line = "\x1b[32m12345\x1b[0m678";
        assert_eq!((seen(line), clip(line, 8).as_str()), (8, line));
        assert_eq!(clip(line, 4), "\x1b[32m123…\x1b[0m");
    }
}
