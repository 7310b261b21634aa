//! The section `[page]`.

use boxoffice_core::id::Id;
use boxoffice_edge::PageConfig;

use super::{ConfigError, Settings, is_origin};

impl Settings<'_> {
    /// The settings of the page.
    pub(super) fn page(&self, gateway: bool) -> Result<PageConfig, ConfigError> {
        Ok(PageConfig {
            products: self.ids("page.products")?,
            resources: self.ids("page.resources")?,
            gateway,
            demo: self.demo()?,
            payment: self.payment()?,
        })
    }

    fn ids(&self, key: &str) -> Result<Vec<Id>, ConfigError> {
        let names = self.find::<Vec<String>>(key)?;
        let id =
            |name: &String| Id::new(name).ok_or_else(|| names.wrong(format!("{name:?} is not an id like \"room-5\"")));
        names.value.iter().map(id).collect()
    }

    fn payment(&self) -> Result<Option<String>, ConfigError> {
        let payment = self.find::<String>("page.payment")?;
        let given = &payment.value;
        let is_path = |path: &str| path.bytes().all(|byte| byte.is_ascii_graphic() && !b";,'\"".contains(&byte));
        let parts = given.strip_prefix("https://").and_then(|rest| rest.split_once('/'));
        match parts {
            _ if given.is_empty() => Ok(None),
            _ if given.starts_with("/page/") && is_path(given) => Ok(Some(given.clone())),
            Some((host, path)) if is_origin(&format!("https://{host}")) && is_path(path) => Ok(Some(given.clone())),
            Some(_) | None => Err(payment.wrong(format!(
                "{given:?} is neither an address like \"https://pay.example/element.js\" nor a path below /page/"
            ))),
        }
    }

    fn demo(&self) -> Result<Option<String>, ConfigError> {
        let demo = self.find::<String>("page.demo")?;
        match demo.value.as_str() {
            "" => Ok(None),
            url if is_origin(url) => Ok(Some(url.to_owned())),
            url => Err(demo.wrong(format!("{url:?} is not an address like \"http://127.0.0.1:7190\""))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::refused};

    #[test]
    fn the_page_offers_nothing_by_default() {
        let page = Config::load(None).expect("the built-in configuration is valid").edge.page;
        assert!(page.products.is_empty() && page.resources.is_empty() && page.demo.is_none() && !page.gateway);
    }

    #[test]
    fn settings_of_the_page_are_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("b.toml");
        let text = "[page]\nproducts = [\"programme\", \"poster\"]\nresources = [\"room-5\"]\ndemo = \"http://127.0.0.1:7190\"\n\
                    [payments]\nurl = \"https://pay.example\"\n[limits]\nconnections = 40000\n";
        std::fs::write(&path, text).expect("a written file");
        let config = Config::load(Some(&path)).expect("a valid file");
        let names: Vec<_> = config.edge.page.products.iter().map(|product| product.as_str()).collect();
        assert_eq!(names, ["programme", "poster"]);
        assert_eq!(config.edge.page.resources.len(), 1);
        assert_eq!(config.edge.page.demo.as_deref(), Some("http://127.0.0.1:7190"));
        assert!(config.edge.page.gateway);
        assert_eq!(config.edge.limits.connections_max, 40_000);
    }

    #[test]
    fn mistakes_about_the_page_are_named_with_line_and_key() {
        for (text, expected) in [
            ("products = [\"a\", \"\"]", "page.products: \"\" is not an id"),
            ("resources = [\"room 5/6\\n\"]", "page.resources: "),
            ("products = \"programme\"", "invalid type"),
            ("demo = \"127.0.0.1:7190\"", "page.demo: \"127.0.0.1:7190\" is not an address like"),
            ("payment = \"http://pay.example/a.js\"", "page.payment: \"http://pay.example/a.js\" is neither"),
            ("payment = \"https://pay.example; x/a.js\"", "page.payment: "),
            ("title = \"x\"", "unknown field `title`"),
        ] {
            let error = refused(&format!("# mine\n[page]\n{text}\n"));
            assert!(error.starts_with(&format!("line 3: {expected}")), "{text}: {error}");
        }
        let none = refused("[limits]\nconnections = 0\n");
        assert_eq!(none, "line 2: limits.connections: 0 is not within 1 and 1000000");
    }
}
