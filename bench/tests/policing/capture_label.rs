//! The truth about a capture, from its file name.

/// The limit on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathLimitKind {
    Policer,
    /// A policer whose bucket size the router chose.
    OwnBucket,
    /// A shaper, a narrow link, random loss.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureLabel {
    pub kind: PathLimitKind,
    pub streams: u32,
    /// The text for the table.
    pub words: String,
}

impl CaptureLabel {
    /// Parses `C=5-L=2000000-CD=500-PCIR=500000-PBC=8000-RTT=100-…-CP=10001.pcap.xz`.
    pub fn read(name: &str) -> CaptureLabel {
        let value = |key: &str| {
            let found = name.split('-').find_map(|part| part.strip_prefix(key));
            found.and_then(|rest| rest.strip_prefix('='))
        };
        let number = |key: &str| value(key)?.parse::<f64>().ok();
        let kind = match (number("PCIR"), number("PBC")) {
            (Some(_), Some(_)) => PathLimitKind::Policer,
            (Some(_), None) => PathLimitKind::OwnBucket,
            (None, _) => PathLimitKind::Other,
        };
        let limit = |kind: &str, rate: &str, bucket: &str| {
            let rate = number(rate)? / 1e6;
            let bucket = number(bucket).map(|bytes| format!(", {} kB", bytes / 1e3));
            Some(format!("{kind} {rate} Mbit/s{}", bucket.unwrap_or_default()))
        };
        let loss = value("LOSS").filter(|loss| *loss != "0%");
        let words: Vec<String> = [
            limit("policer", "PCIR", "PBC"),
            limit("shaper", "SCIR", "SBC"),
            loss.map(|loss| format!("random loss {}", loss.replace('%', " %"))),
            value("XT").map(|_| "others' traffic".to_owned()),
            value("CP").or_else(|| value("CP1")).map(|it| it.replace(".pcap.xz", "")),
        ]
        .into_iter()
        .flatten()
        .collect();
        CaptureLabel {
            kind,
            streams: if value("CP2").is_some() { 2 } else { 1 },
            words: words.join("; "),
        }
    }
}

#[test]
fn a_name_is_a_label() {
    let label = CaptureLabel::read(
        "C=5-L=2000000-CD1=1500-CD2=1000-ID=0-PCIR=1500000-PBC=8000-RTT=100-RTTV=0-RTTC=0%\
         -LOSS=0%-XT=1-TCP=cubic-T=1-CP1=16487-CP2=16488.pcap.xz",
    );
    let words = "policer 1.5 Mbit/s, 8 kB; others' traffic; 16487";
    assert_eq!(
        (label.kind, label.streams, label.words.as_str()),
        (PathLimitKind::Policer, 2, words)
    );
    let label = CaptureLabel::read("CD=1-SCIR=10000000-RTT=100-LOSS=2%-T=1-CP=14387.pcap.xz");
    let words = "shaper 10 Mbit/s; random loss 2 %; 14387";
    assert_eq!((label.kind, label.streams, label.words.as_str()), (PathLimitKind::Other, 1, words));
    assert_eq!(CaptureLabel::read("PCIR=500000").kind, PathLimitKind::OwnBucket);
}
