//! From a document to HTML.

use std::fmt::Write;

use super::Document;

const STYLE: &str = include_str!("bundle.css");
const SCRIPT: &str = include_str!("bundle.js");

/// Nothing is loaded from anywhere, whatever names say.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

impl Document {
    /// The page. `text` is what the command prints, for those who see nothing else.
    pub fn to_html(&self, text: &str) -> Result<String, String> {
        let data = serde_json::to_string(self).map_err(|error| format!("cannot write the page: {error}"))?;
        let (title, text) = (escape_html(&self.title), escape_html(text));
        let mut page = String::with_capacity(data.len() + STYLE.len() + SCRIPT.len() + 4096);
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"meshwright {version}\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <noscript><pre>{text}</pre></noscript>\n\
             <script type=\"application/json\" id=\"document\">",
            version = env!("CARGO_PKG_VERSION"),
        );
        escape_json(&data, &mut page);
        let _ = write!(page, "</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
        Ok(page)
    }
}

/// JSON that cannot end the element it stands in, whatever its strings hold.
fn escape_json(data: &str, page: &mut String) {
    for letter in data.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(page, "\\u{:04x}", letter as u32);
            }
            _ => page.push(letter),
        }
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Verdict;
    use super::*;

    #[test]
    fn names_stay_text() {
        let name = "</script><script>alert(1)</script></style><!-- & \u{2028}";
        let verdict = Verdict { fits: None, text: name.to_owned() };
        let document = Document::new("plan", name.to_owned(), verdict, json!({ name: name }));
        let page = document.to_html(name).expect("a page");
        assert_eq!(page.matches("</script").count(), 2);
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</style").count(), 1);
        assert!(!page.contains("<!--"));
        let (_, rest) = page.split_once("id=\"document\">").expect("the data");
        let (data, _) = rest.split_once("</script>").expect("the end of the data");
        assert!(!data.contains('\u{2028}'));
        let read: serde_json::Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(read["title"], name);
    }

    #[test]
    fn the_bundle_cannot_end_its_element() {
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
        for word in ["http://", "https://", "fetch(", "XMLHttpRequest", "import("] {
            assert!(
                !SCRIPT.replace("http://www.w3.org/2000/svg", "").contains(word),
                "the page needs no network: {word}"
            );
        }
    }
}
