//! Codes as CSV: `code,group,uses[,ended][,by_order]`. A line is a code.
//!
//! No message has a code itself, because messages are kept longer than a code is secret.

use std::collections::BTreeMap;

use boxoffice_core::{
    command::{CODE_USES_MAX, CodeDetails},
    id::Id,
};

use super::{
    list::{self, Form, ListLine},
    plan::{CodePlan, ImportPlan},
};

const FORM: Form = Form {
    line_is: "a code: code,group,uses",
    required: &["code", "group", "uses"],
    optional: &["ended", "by_order"],
    told_by: ("code", &["group", "uses"]),
};

/// Reads a list of codes. `None` if the file is none.
///
/// # Errors
/// What is wrong with the file, with the line and the column.
pub fn read(bytes: &[u8]) -> Result<Option<ImportPlan>, String> {
    let Some(list) = list::read(bytes, &FORM)? else { return Ok(None) };
    let says = ["ended", "by_order"].map(|column| list.has(column));
    let mut lines: BTreeMap<Id, u64> = BTreeMap::new();
    let mut codes = Vec::new();
    for line in list.lines() {
        let plan = code(line, says)?;
        if let Some(first) = lines.insert(plan.code.clone(), line.number()) {
            return Err(format!("{}: line {first} has the same code; leave one out", line.at("code")));
        }
        codes.push(plan);
    }
    Ok(Some(ImportPlan { codes, notes: vec![list.note("codes")], ..ImportPlan::default() }))
}

fn code(line: ListLine<'_>, [says_ended, says_by_order]: [bool; 2]) -> Result<CodePlan, String> {
    const IS_ID: &str = "1 to 64 of A-Z a-z 0-9 . _ : -";
    let text = line.field("code");
    let code = Id::new(text).ok_or_else(|| {
        let at = line.at("code");
        match text {
            "" => format!("{at}: there is no code"),
            // 1234567890123 as a spreadsheet shows it.
            _ if text.contains('E') && text.contains('+') => {
                format!("{at}: a spreadsheet has made a number of this code; make the column text, and save it again")
            }
            _ => format!("{at}: a code is {IS_ID}"),
        }
    })?;
    let group = line.field("group");
    let group =
        Id::new(group).ok_or_else(|| format!("{}: {group:?} is no group, which is {IS_ID}", line.at("group")))?;
    let uses = line.field("uses");
    let is_number = !uses.is_empty() && uses.bytes().all(|digit| digit.is_ascii_digit());
    let uses = uses.parse().ok().filter(|uses| is_number && *uses <= CODE_USES_MAX).ok_or_else(|| {
        format!("{}: {uses:?} is no number of uses; a code has 0 to {CODE_USES_MAX}", line.at("uses"))
    })?;
    let said = |column: &str, says: bool| match line.field(column).to_lowercase().as_str() {
        _ if !says => Ok(None),
        "no" | "false" => Ok(Some(false)),
        "yes" | "true" => Ok(Some(true)),
        other => Err(format!("{}: {other:?} says nothing; write yes or no", line.at(column))),
    };
    let (ended, by_order) = (said("ended", says_ended)?, said("by_order", says_by_order)?);
    let details = CodeDetails { group, uses, ended: ended.unwrap_or_default(), by_order: by_order.unwrap_or_default() };
    let (keeps_ended, keeps_by_order) = (ended.is_none(), by_order.is_none());
    Ok(CodePlan { code, details, keeps_ended, keeps_by_order, line: Some(line.number()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text.as_bytes()).expect_err(text)
    }

    fn codes(bytes: &[u8]) -> Vec<CodePlan> {
        read(bytes).expect("it is read").expect("it is a list of codes").codes
    }

    #[test]
    fn codes_are_read_however_the_file_was_saved() {
        let plain = codes(b"code,group,uses\nGLOBE-1,members,4\nGLOBE-2,press,1\n");
        let shown: Vec<_> = plain
            .iter()
            .map(|of| (of.code.as_str(), of.details.group.as_str(), of.details.uses, of.keeps_ended, of.line))
            .collect();
        assert_eq!(shown, [("GLOBE-1", "members", 4, true, Some(2)), ("GLOBE-2", "press", 1, true, Some(3))]);
        for bytes in [
            &b"\xef\xbb\xbfcode,group,uses\r\nGLOBE-1,members,4\r\nGLOBE-2,press,1\r\n"[..],
            b"Code;Group;Uses;\r\nGLOBE-1;members;4;\r\nGLOBE-2;press;1;\r\n",
            b"uses\tcode\tgroup\n4\tGLOBE-1\tmembers\n1\tGLOBE-2\tpress",
            b"\"code\",\"#whose\",\"group\",\"uses\"\n\"GLOBE-1\",\"Ada, of the board\",\"members\",\"4\"\nGLOBE-2,,press,1\n",
        ] {
            assert_eq!(codes(bytes), plain, "{}", String::from_utf8_lossy(bytes));
        }
        let with = codes(b"code,group,uses,ended\nGLOBE-1,members,4,yes\nGLOBE-2,press,1,No\n");
        let shown: Vec<_> = with.iter().map(|of| (of.details.ended, of.keeps_ended)).collect();
        assert_eq!(shown, [(true, false), (false, false)]);
        let orders = codes(b"code,group,uses,by_order\nGLOBE-1,members,4,YES\nGLOBE-2,press,1,no\n");
        let shown: Vec<_> = orders.iter().map(|of| (of.details.by_order, of.keeps_by_order, of.keeps_ended)).collect();
        assert_eq!(shown, [(true, false, true), (false, false, true)]);
    }

    #[test]
    fn other_files_are_no_codes() {
        for text in ["row,seat\nA,1\n", "name,price,stock\nCup,1.00,5\n", "", "A;1;12,50\n", "code\nA\n"] {
            assert_eq!(read(text.as_bytes()), Ok(None), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_line_and_column_and_without_the_code() {
        let with = |line: &str| refused(&format!("code,group,uses,ended\n\nA-1,members,1,no\n{line}\n"));
        assert_eq!(with(",members,1,no"), "line 4, column 1 (code): there is no code");
        assert_eq!(with("SECRET 1,members,1,no"), "line 4, column 1 (code): a code is 1 to 64 of A-Z a-z 0-9 . _ : -");
        assert_eq!(
            with("1.23E+12,members,1,no"),
            "line 4, column 1 (code): a spreadsheet has made a number of this code; make the column text, and save it again"
        );
        assert_eq!(
            with("SECRET,all of them,1,no"),
            "line 4, column 2 (group): \"all of them\" is no group, which is 1 to 64 of A-Z a-z 0-9 . _ : -"
        );
        for uses in ["", "-1", "1.5", "+2", "1000001", "99999999999999999999"] {
            assert_eq!(
                with(&format!("SECRET,members,{uses},no")),
                format!("line 4, column 3 (uses): {uses:?} is no number of uses; a code has 0 to 1000000")
            );
        }
        assert_eq!(with("SECRET,members,1,"), "line 4, column 4 (ended): \"\" says nothing; write yes or no");
        assert_eq!(with("A-1,press,2,no"), "line 4, column 1 (code): line 3 has the same code; leave one out");
        assert_eq!(
            with("SECRET;members;1;no"),
            "line 4 has 1 column where 3 are needed; are there commas between them, as in the first line?"
        );
        assert_eq!(
            with("SECRET,members,1,no,more"),
            "line 4, column 5: there are 5 columns, the first line names 4 (an amount with a decimal comma needs quotes)"
        );
        assert_eq!(
            refused("code,group\nSECRET,members\n"),
            "line 1 names no column uses; a line is a code: code,group,uses"
        );
        assert_eq!(
            refused("code,group,uses,user\nSECRET,members,1,Ada\n"),
            "line 1, column 4: \"user\" is no column of such a list, which has code, group, uses, ended, by_order; a column that is to \
             be left out has a name that begins with #"
        );
        assert_eq!(
            refused("code,uses,group,Uses\nSECRET,1,members,2\n"),
            "line 1, column 4: there are two columns uses"
        );
        assert_eq!(
            refused("code,group,uses\n"),
            "there is nothing below the names of the columns; a line is a code: code,group,uses"
        );
    }
}
