//! The text for whoever runs a path, from what the archive has of an event.

use longhaul_analysis::event::{Evidence, Explained, Seen, case_text};
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::{AnyReport, Kind, Path};
use longhaul_store::watched::{Range, RunFilter};
use longhaul_store::{StoreError, Watched};

/// Around the event, path reports of so long are looked at.
const AROUND_US: i64 = 2 * 86_400 * 1_000_000;
const REPORTS: u32 = 40;

/// What is known of the event, with the routes on both sides of it.
pub fn case_text_of(archive: &dyn Watched, event: &Event) -> Result<String, StoreError> {
    let [before_us, after_us] = event.between_us;
    let sides = [
        (before_us.saturating_sub(AROUND_US), before_us.saturating_add(1)),
        (after_us, after_us.saturating_add(AROUND_US)),
    ];
    let mut paths: Vec<(i64, Box<Path>)> = Vec::new();
    for (begin_us, end_us) in sides {
        let entries = archive.runs(&RunFilter {
            range: Range { begin_us, end_us },
            pair: Some(event.pair.clone()),
            kind: Some(Kind::Path),
            limit: REPORTS,
        })?;
        for entry in entries {
            let at_us = super::routes::moment_us(&entry.started_at);
            if let (Some(at_us), Some(AnyReport::Path(path))) = (at_us, archive.report(&entry.id)?) {
                paths.push((at_us, path));
            }
        }
    }
    paths.sort_by_key(|(at_us, _)| *at_us);
    let evidence = Evidence {
        paths: paths
            .iter()
            .map(|(at_us, report)| Seen {
                at_us: *at_us,
                report: report.as_ref(),
                forward: report.run.initiator.host == event.pair.from,
            })
            .collect(),
        ..Evidence::default()
    };
    let explained = Explained {
        causes: event.causes.clone(),
        unchanged: event.unchanged.clone(),
        scope: event.scope.clone(),
        effect: None,
        undoes: None,
    };
    Ok(case_text(event, &explained, &evidence))
}
