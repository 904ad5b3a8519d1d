//! The archives of a template as tables of a watch file.
//!
//! Source: the archiver `http` of perfsonar/pscheduler, schemas 1 to 4.

use super::address_pairs::OwnTest;
use super::quote;
use super::template_parts::TemplateArchive;
use super::template_variables::expand_variables;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The data of the archiver `http`. It ends connections and tries again in its own way.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct HttpArchiverData {
    #[serde(rename = "_url")]
    url: String,
    #[serde(default)]
    op: HttpOperation,
    /// Headers with the value `null` are left out.
    #[serde(default, rename = "_headers")]
    headers: BTreeMap<String, Option<String>>,
    /// pScheduler accepts any certificate by default.
    #[serde(default)]
    verify_ssl: bool,
    bind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HttpOperation {
    #[default]
    Post,
    Put,
}

/// Converts an archive into the table `[[perfsonar_archive]]`, for one test that has variables.
///
/// # Errors
/// The reason why no results are sent there.
pub fn convert_archive(archive: &TemplateArchive, test: &OwnTest<'_>) -> Result<String, String> {
    if archive.archiver != "http" {
        return Err(format!("its archiver is {}, and only http is known", archive.archiver));
    }
    if archive.transform.is_some() {
        return Err("its transform is not evaluated".to_owned());
    }
    let data: HttpArchiverData = serde_json::from_value(expand_variables(&archive.data, test)?)
        .map_err(|error| error.to_string())?;
    if data.bind.is_some() {
        return Err("its requests would have to leave from one address (bind)".to_owned());
    }
    let method = match data.op {
        HttpOperation::Post => "post",
        HttpOperation::Put => "put",
    };
    let headers = data.headers.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let headers = headers.map(|(name, value)| format!("{} = {}", quote(name), quote(value)));
    Ok(format!(
        "\n[[perfsonar_archive]]\nurl = {}\nmethod = \"{method}\"\nheaders = {{ {} }}\n\
         verify_certificate = {}\n",
        quote(&data.url),
        headers.collect::<Vec<_>>().join(", "),
        Value::from(data.verify_ssl),
    ))
}
