//! The send loop: takes a batch from the outbox, sends it, and records the acknowledged items. While
//! a batch is sent, the next one is read and prepared.

use super::batch_wire::{self, BatchResponse};
use super::perfsonar_archive::PerfsonarArchive;
use super::{DeliveryError, ResultReceiver, format_error_chain};
use crate::agent::agent_folder::replace_private_file;
use crate::agent::agent_log::AgentLog;
use crate::agent::clocks::read_wall_us;
use crate::agent::shared_state::SharedState;
use crate::http_client::{http_client_builder, read_body};
use crate::secret_file;
use crate::token_store::encode_digest;
use crate::watch::hash_random::{draw_number, hash_text};
use crate::watch::watch_file::{CollectorSection, WatchFile};
use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul_probe::secure::AuthToken;
use longhaul_store::sqlite::outbox::{OutboxEntry, OutboxRange, OutgoingBatch, RefusedEntry};
use longhaul_store::{Archive, StoreError};
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Response, StatusCode, Url};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The limits of a batch; a single item may be larger.
struct BatchLimits {
    items: u32,
    bytes: u64,
}

const COLLECTOR_LIMITS: BatchLimits = BatchLimits { items: 500, bytes: 4 << 20 };
/// Each insert waits for the disk and makes parts that the database has to merge.
const DATABASE_LIMITS: BatchLimits = BatchLimits { items: 20_000, bytes: 64 << 20 };

/// The archive stores a repeated document twice, so that as few as possible are repeated.
const PERFSONAR_LIMITS: BatchLimits = BatchLimits { items: 1, bytes: 4 << 20 };

impl BatchLimits {
    fn of(receiver: &ResultReceiver, file: &WatchFile) -> BatchLimits {
        match receiver {
            ResultReceiver::Perfsonar(_) => PERFSONAR_LIMITS,
            ResultReceiver::Main if receiver.is_database(file) => DATABASE_LIMITS,
            ResultReceiver::Main => COLLECTOR_LIMITS,
        }
    }
}

/// The poll interval of an empty outbox, so that batches fill a little.
const EMPTY_POLL: Duration = Duration::from_secs(1);
/// The interval between two counts of the backlog.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(10);
/// The delay after a first failure doubles up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(300);

/// An open connection to a receiver.
enum ExportDestination {
    Collector(CollectorClient),
    Perfsonar(PerfsonarArchive),
    #[cfg(feature = "clickhouse")]
    Database(longhaul_clickhouse::ClickHouseSink),
}

/// A batch in the form in which its destination takes it.
enum BatchContent {
    Items(Vec<OutboxEntry>),
    #[cfg(feature = "clickhouse")]
    Rows(Box<super::batch_wire::CheckedBatch>),
}

impl BatchContent {
    /// Prepares a batch for the receiver.
    #[cfg_attr(not(feature = "clickhouse"), expect(unused_variables, reason = "of a database"))]
    fn prepare(receiver: &ResultReceiver, file: &WatchFile, batch: OutgoingBatch) -> BatchContent {
        #[cfg(feature = "clickhouse")]
        if receiver.is_database(file) {
            let batch = super::database_delivery::build_batch(&file.agent.name, batch);
            return BatchContent::Rows(Box::new(batch));
        }
        BatchContent::Items(batch.items)
    }
}

/// A batch that is ready to be sent.
struct PreparedBatch {
    /// The positions to acknowledge.
    range: OutboxRange,
    /// The positions of its items.
    places: Vec<i64>,
    content: BatchContent,
}

/// An archive with the batch that was read from it, if something waits.
type ReadOutcome = Result<(Archive, Option<PreparedBatch>), StoreError>;

pub struct BatchSender {
    receiver: Arc<ResultReceiver>,
    state: Arc<SharedState>,
    log: AgentLog,
    stop: watch::Receiver<bool>,
    runtime: Handle,
    /// Opened before the first batch.
    archive: Option<Archive>,
    /// The last position that the receiver has acknowledged.
    acknowledged: i64,
    /// The next batch, if it was read while the last one was sent.
    next_batch: Option<PreparedBatch>,
    /// Opened before the next batch if absent.
    destination: Option<ExportDestination>,
    /// The number of failures in a row.
    failures: u32,
    /// The maximum number of items in the next batch, after a rejected one.
    max_items: u32,
    /// The last error that was logged.
    logged_error: Option<String>,
    counted_at: Option<Instant>,
}

impl BatchSender {
    pub fn new(
        receiver: ResultReceiver,
        state: Arc<SharedState>,
        log: AgentLog,
        stop: watch::Receiver<bool>,
    ) -> BatchSender {
        BatchSender {
            receiver: Arc::new(receiver),
            state,
            log,
            stop,
            runtime: Handle::current(),
            archive: None,
            acknowledged: 0,
            next_batch: None,
            destination: None,
            failures: 0,
            max_items: u32::MAX,
            logged_error: None,
            counted_at: None,
        }
    }

    /// Sends batches until `stop` is true. Blocks the thread.
    pub fn run(mut self) {
        loop {
            let wait = match self.send_next_batch() {
                Ok(wait) => wait,
                Err(_) if *self.stop.borrow() => return,
                Err(why) => self.record_failure(why),
            };
            self.count_backlog();
            let runtime = self.runtime.clone();
            let stopped = self.stop.wait_for(|stop| *stop);
            if runtime.block_on(async { timeout(wait, stopped).await.is_ok() }) {
                return;
            }
        }
    }

    /// Sends one batch. Returns the delay before the next one.
    fn send_next_batch(&mut self) -> Result<Duration, String> {
        let Some(batch) = self.take_next_batch()? else {
            return Ok(EMPTY_POLL);
        };
        let reading = self.start_reading(batch.range.up_to);
        let delivered = self.deliver(batch.content);
        let next = self.finish_reading(reading)?;
        let refused = match (delivered, &batch.places[..]) {
            (Ok(answer), _) => {
                self.record_success();
                answer.refused
            }
            (Err(DeliveryError::Temporary(why)), _) => return Err(why),
            // A batch of one item: this item is the rejected one.
            (Err(DeliveryError::Rejected(why)), &[place]) => vec![RefusedEntry { place, why }],
            (Err(DeliveryError::Rejected(_)), places) => {
                self.max_items = (places.len() as u32 / 2).max(1);
                return Ok(Duration::ZERO);
            }
        };
        self.log_rejected(&refused);
        self.with_archive(|archive| archive.acknowledge(&batch.range, &refused))?;
        self.acknowledged = batch.range.up_to;
        self.next_batch = next;
        self.max_items = self.max_items.saturating_mul(2);
        Ok(Duration::ZERO)
    }

    fn take_next_batch(&mut self) -> Result<Option<PreparedBatch>, String> {
        match self.next_batch.take() {
            None => {
                let reading = self.start_reading(self.acknowledged);
                self.finish_reading(reading)
            }
            next => Ok(next),
        }
    }

    /// Starts to read and prepare the batch behind a position on another thread.
    fn start_reading(&mut self, after: i64) -> JoinHandle<ReadOutcome> {
        let (state, receiver) = (Arc::clone(&self.state), Arc::clone(&self.receiver));
        let (archive, max_items) = (self.archive.take(), self.max_items);
        self.runtime.spawn_blocking(move || {
            let archive = archive.map_or_else(|| open_outbox(&state, &receiver), Ok)?;
            let file = state.file();
            let limits = BatchLimits::of(&receiver, &file);
            let items = max_items.min(limits.items);
            let is_database = receiver.is_database(&file);
            let additions = state.stored_runs.count_additions();
            let outgoing = archive.next_outgoing_with(
                receiver.outbox_name(),
                after,
                items,
                limits.bytes,
                |id| is_database.then(|| state.stored_runs.take(id)).flatten(),
            )?;
            if is_database && outgoing.as_ref().is_none_or(|it| it.is_last) {
                state.stored_runs.remove_additions(additions);
            }
            let prepared = outgoing.map(|batch| PreparedBatch {
                range: batch.range.clone(),
                places: batch.places().collect(),
                content: BatchContent::prepare(&receiver, &file, batch),
            });
            Ok((archive, prepared))
        })
    }

    fn finish_reading(
        &mut self,
        reading: JoinHandle<ReadOutcome>,
    ) -> Result<Option<PreparedBatch>, String> {
        let read = self.runtime.block_on(reading).map_err(|error| error.to_string())?;
        let (archive, batch) = read.map_err(|error| format_error_chain(&error))?;
        self.archive = Some(archive);
        Ok(batch)
    }

    fn deliver(&mut self, content: BatchContent) -> Result<BatchResponse, DeliveryError> {
        if self.destination.is_none() {
            let opened =
                open_destination(&self.receiver, &self.state).map_err(DeliveryError::Temporary)?;
            self.destination = Some(opened);
        }
        let file = self.state.file();
        let agent = &file.agent.name;
        let stopped = async {
            let _ = self.stop.wait_for(|stop| *stop).await;
            Err(DeliveryError::Temporary("the agent is stopping".to_owned()))
        };
        match (&mut self.destination, content) {
            (Some(ExportDestination::Collector(way)), BatchContent::Items(items)) => {
                self.runtime.block_on(async {
                    tokio::select! {
                        answer = way.send_batch(agent, read_wall_us(), &items) => answer,
                        stopping = stopped => stopping,
                    }
                })
            }
            (Some(ExportDestination::Perfsonar(archive)), BatchContent::Items(items)) => {
                self.runtime.block_on(async {
                    tokio::select! {
                        answer = archive.send_items(&file, &items) => answer,
                        stopping = stopped => stopping,
                    }
                })
            }
            #[cfg(feature = "clickhouse")]
            (Some(ExportDestination::Database(database)), BatchContent::Rows(batch)) => {
                super::database_delivery::deliver_batch(*batch, |delivery| {
                    database.receive(delivery)
                })
            }
            // The file has changed since the batch was prepared; the next one is read again.
            _ => Err(DeliveryError::Temporary("the destination has changed".to_owned())),
        }
    }

    /// Opens the archive first if it is not open.
    fn with_archive<T>(
        &mut self,
        work: impl FnOnce(&mut Archive) -> Result<T, StoreError>,
    ) -> Result<T, String> {
        let archive = match &mut self.archive {
            Some(archive) => Ok(archive),
            none => open_outbox(&self.state, &self.receiver).map(|opened| none.insert(opened)),
        };
        archive.and_then(work).map_err(|error| format_error_chain(&error))
    }

    /// Counts the backlog if the last count is old enough.
    fn count_backlog(&mut self) {
        if self.counted_at.is_some_and(|at| at.elapsed() < BACKLOG_INTERVAL) {
            return;
        }
        self.counted_at = Some(Instant::now());
        if let Ok(backlog) = self.with_archive(|archive| archive.backlog()) {
            let mut figures = self.state.counters.write();
            figures.to_send = Some(backlog.items);
            figures.set_aside = Some(backlog.set_aside);
        }
    }

    fn log_rejected(&self, refused: &[RefusedEntry]) {
        if let Some(first) = refused.first() {
            let count = refused.len();
            self.log.warn(&format!(
                "the receiver rejected {count} {}, kept in this archive; first reason: {}",
                if count == 1 { "item" } else { "items" },
                first.why
            ));
        }
    }

    fn receiver_name(&self) -> String {
        match (&*self.receiver, &self.state.file().collector) {
            (ResultReceiver::Perfsonar(section), _) => {
                format!("the perfSONAR archive {}", section.url)
            }
            (ResultReceiver::Main, Some(section)) => {
                format!("the collector {}", section.url.trim_start_matches("https://"))
            }
            (ResultReceiver::Main, None) => "the database".to_owned(),
        }
    }

    /// Logs an error unless it equals the last one. Returns the retry delay.
    fn record_failure(&mut self, why: String) -> Duration {
        // Opening it again reads the token again, which may have changed.
        self.destination = None;
        if self.logged_error.as_ref() != Some(&why) {
            let whereto = self.receiver_name();
            self.log
                .warn(&format!("cannot send to {whereto}: {why}; results are kept in the archive"));
            self.logged_error = Some(why);
        }
        self.failures = self.failures.saturating_add(1);
        let seed = hash_text(&self.state.file().agent.name) ^ self.state.started_us as u64;
        retry_delay(seed, self.failures)
    }

    fn record_success(&mut self) {
        if self.failures > 0 {
            self.log.info(&format!("{} accepts results again", self.receiver_name()));
        }
        self.failures = 0;
        self.logged_error = None;
    }
}

/// Returns the delay after so many failures: between half and all of the full delay, so that agents
/// do not retry in lockstep.
fn retry_delay(seed: u64, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY);
    let half_ms = (full.as_millis() / 2) as u64;
    let chance_ms = draw_number(seed, &[u64::from(failures)]) % (half_ms + 1);
    Duration::from_millis(half_ms + chance_ms)
}

/// Opens the archive, and puts items that were rejected before back into the outbox: the receiver may
/// accept them now.
fn open_outbox(state: &SharedState, receiver: &ResultReceiver) -> Result<Archive, StoreError> {
    let mut opened = (state.open_archive)()?;
    opened.requeue_rejected(receiver.outbox_name())?;
    Ok(opened)
}

fn open_destination(
    receiver: &ResultReceiver,
    state: &SharedState,
) -> Result<ExportDestination, String> {
    if let ResultReceiver::Perfsonar(section) = receiver {
        return PerfsonarArchive::new(section, &state.folder).map(ExportDestination::Perfsonar);
    }
    let file = state.file();
    #[cfg(feature = "clickhouse")]
    if let Some(section) = &file.database {
        return crate::agent::shared_database::open_database(section, &state.folder)
            .map(ExportDestination::Database)
            .map_err(|error| format_error_chain(&error));
    }
    let section = file.collector.as_ref();
    let section = section.ok_or("the watch file names no destination of results any more")?;
    let client = CollectorClient::new(section, &state.folder, &state.tokens.collector_token_path());
    client.map(ExportDestination::Collector)
}

const BATCHES_PATH: &str = "/api/v1/batches";
const ENROL_PATH: &str = "/api/v1/enrol";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout from the first byte of the batch to the last byte of the response, long enough for
/// slow links.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);
/// The response lists every rejected item, so it may be long.
const MAX_RESPONSE_BYTES: u64 = 2 << 20;

/// A client for one collector.
#[derive(Debug, Clone)]
pub struct CollectorClient {
    http: reqwest::Client,
    url: Url,
    token: Option<HeaderValue>,
    enrolment: Option<CollectorEnrolment>,
}

/// The request that makes the agent's own token known to the collector.
#[derive(Debug, Clone)]
struct CollectorEnrolment {
    url: Url,
    /// The token that agents share.
    shared_token: HeaderValue,
    token_sha256: String,
}

impl CollectorClient {
    /// Creates a client from `[collector]`; relative paths refer to `folder`. An agent that enrols has
    /// its token in the file `own_token`, which is created now if it is absent.
    pub fn new(
        section: &CollectorSection,
        folder: &Path,
        own_token: &Path,
    ) -> Result<CollectorClient, String> {
        let parse_url = |path: &str| {
            let address = format!("{}{path}", section.url.trim_end_matches('/'));
            Url::parse(&address).map_err(|error| format!("{address}: {error}"))
        };
        let mut token =
            section.token_file.as_ref().map(|file| read_token(&folder.join(file))).transpose()?;
        let mut enrolment = None;
        if let Some(file) = &section.enrol_token_file {
            let own = load_own_token(own_token)?;
            token = Some(read_token(own_token)?);
            enrolment = Some(CollectorEnrolment {
                url: parse_url(ENROL_PATH)?,
                shared_token: read_token(&folder.join(file))?,
                token_sha256: encode_digest(own.as_bytes()),
            });
        }
        let mut http =
            http_client_builder(REQUEST_TIMEOUT).https_only(true).connect_timeout(CONNECT_TIMEOUT);
        if let Some(file) = &section.ca_file {
            http = http.tls_certs_only(read_certificates(&folder.join(file))?);
        }
        Ok(CollectorClient {
            http: http
                .build()
                .map_err(|error| format!("cannot set up TLS: {}", format_error_chain(&error)))?,
            url: parse_url(BATCHES_PATH)?,
            token,
            enrolment,
        })
    }

    /// Makes the agent's own token known to the collector, with the token that agents share.
    async fn enrol(&self, agent: &str, with: &CollectorEnrolment) -> Result<(), DeliveryError> {
        let request = serde_json::json!({ "agent": agent, "token_sha256": with.token_sha256 });
        let response = self
            .http
            .post(with.url.clone())
            .header(AUTHORIZATION, with.shared_token.clone())
            .json(&request)
            .send()
            .await
            .map_err(|error| DeliveryError::Temporary(format_error_chain(&error.without_url())))?;
        let status = response.status();
        let body =
            read_body(response, MAX_RESPONSE_BYTES).await.map_err(DeliveryError::Temporary)?;
        if status == StatusCode::OK {
            return Ok(());
        }
        let (_, text) = parse_error_response(&body);
        Err(DeliveryError::Temporary(format!("cannot enrol: it answered {status}: {text}")))
    }

    pub async fn send_batch(
        &self,
        agent: &str,
        sent_us: i64,
        items: &[OutboxEntry],
    ) -> Result<BatchResponse, DeliveryError> {
        let body = compress_batch(&batch_wire::encode_batch(agent, sent_us, items))
            .map_err(|error| DeliveryError::Temporary(error.to_string()))?;
        let mut response = self.post_body(body.clone()).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(enrolment) = &self.enrolment
        {
            self.enrol(agent, enrolment).await?;
            response = self.post_body(body).await?;
        }
        self.read_response(response).await
    }

    async fn post_body(&self, body: Vec<u8>) -> Result<Response, DeliveryError> {
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_ENCODING, "gzip")
            .body(body);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let sent = request.send().await;
        sent.map_err(|error| DeliveryError::Temporary(format_error_chain(&error.without_url())))
    }

    async fn read_response(&self, response: Response) -> Result<BatchResponse, DeliveryError> {
        let status = response.status();
        let body =
            read_body(response, MAX_RESPONSE_BYTES).await.map_err(DeliveryError::Temporary)?;
        if status == StatusCode::OK {
            return BatchResponse::parse(&body)
                .map_err(|why| DeliveryError::Temporary(format!("cannot read its answer: {why}")));
        }
        let (ours, text) = parse_error_response(&body);
        let why = format!("it answered {status}: {text}");
        Err(match status {
            // Only longhaul itself rejects the batch for good. The same status from something in
            // between, such as a misconfigured proxy, may be temporary.
            StatusCode::BAD_REQUEST if ours => DeliveryError::Rejected(why),
            StatusCode::PAYLOAD_TOO_LARGE => DeliveryError::Rejected(why),
            _ => DeliveryError::Temporary(why),
        })
    }
}

fn compress_batch(text: &str) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes())?;
    packer.finish()
}

/// Returns whether longhaul sent the error response, and its text.
fn parse_error_response(body: &[u8]) -> (bool, String) {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &value["error"];
    let text = match (error["text"].as_str(), error["hint"].as_str()) {
        (Some(text), Some(hint)) => format!("{text}; {hint}"),
        (Some(text), None) => text.to_owned(),
        (None, _) => String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
    };
    (error["code"].is_string(), batch_wire::sanitize_reason(&text))
}

/// Returns the first line of the token file as an `Authorization` header value.
fn read_token(file: &Path) -> Result<HeaderValue, String> {
    let line =
        secret_file::read_secret(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut value = HeaderValue::try_from(format!("Bearer {line}"))
        .map_err(|_| format!("{}: the first line is not a valid token", file.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the agent's own token, which is generated and stored first if there is none: it must
/// survive a lost answer of the collector.
fn load_own_token(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.exists() {
        let token = AuthToken::generate().ok_or("the kernel gives no random bytes for a token")?;
        replace_private_file(path, format!("{}\n", token.as_str()).as_bytes()).map_err(cannot)?;
    }
    secret_file::read_secret(path).map_err(cannot)
}

fn read_certificates(file: &Path) -> Result<Vec<Certificate>, String> {
    let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match Certificate::from_pem_bundle(&text) {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{}: it contains no certificate", file.display())),
        Err(error) => Err(format!("{}: {}", file.display(), format_error_chain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_minutes() {
        let waits: Vec<Duration> = (1..40).map(|failures| retry_delay(7, failures)).collect();
        assert!(waits[0] >= FIRST_DELAY / 2 && waits[0] <= FIRST_DELAY);
        for (number, wait) in waits.iter().enumerate().skip(9) {
            assert!(*wait >= MAX_DELAY / 2 && *wait <= MAX_DELAY, "{number}: {wait:?}");
        }
    }

    #[test]
    fn agents_that_lose_their_collector_together_do_not_return_together() {
        let waits = |seed| (1..10).map(|it| retry_delay(seed, it)).collect::<Vec<_>>();
        assert_ne!(waits(1), waits(2));
    }
}
