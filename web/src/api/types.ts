// What the API answers. The rows around reports come from the program's own description
// (`npm run types` makes schema.d.ts of docs/openapi.json); reports are declared there as objects,
// so their fields stand here by hand, as docs/report-v1.md has them.
// An absent field was not measured. `_us` are microseconds, `_bps` bit/s, `_ratio` 0 to 1.

import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];

export type Quantity = Schemas["Quantity"];
export type Kind = Schemas["Kind"];
export type State = Schemas["State"];
export type Two = [number, number];

export type Pair = Schemas["Pair"];
export type About = Schemas["About"];
export type GridCell = Schemas["GridCell"];
export type DailyTransferList = Schemas["DailyTransferList"];
export type Point = Schemas["Point"];
export type Bucket = Schemas["Bucket"];
export type Series = Schemas["Series"];
export type RouteHop = Schemas["RouteHop"];
export type RouteRow = Schemas["RouteRow"];
export type RouteChange = Schemas["RouteChange"];
export type RunRow = Schemas["RunRow"];
export type Outcome = Schemas["Outcome"];
export type PlannedRow = Schemas["PlannedRow"];
export type PlannedCounts = Schemas["PlannedCounts"];
export type Planned = Schemas["PlannedRuns"];
export type PlannedRunState = Schemas["PlannedRunState"];
export type Job = Schemas["Job"];
export type RunOrder = Schemas["RunOrder"];
export type RunTaken = Schemas["RunTaken"];
export type HostRow = Schemas["HostRow"];
export type ErrorBody = Schemas["ErrorBody"];
export type Level = Schemas["Level"];
/** An event of a list has `handling`; one of a live update has none. */
export type Event = Schemas["Event"] & Partial<Pick<Schemas["EventRow"], "handling">>;
export type EventNote = Schemas["EventNote"];
export type NewEventNote = Schemas["NewEventNote"];
export type NoteAction = Schemas["NoteAction"];
export type MeasurementState = Schemas["MeasurementState"];
export type CasePart = Schemas["CasePart"];
export type Advice = Schemas["Advice"];
export type Finding = Schemas["Finding"];

export interface Party { host: string; address?: string; longhaul?: string; kernel?: string; cores?: number }
export interface Run {
  id: string;
  started_at: string;
  duration_us: number;
  longhaul: string;
  initiator: Party;
  responder: Party;
  part_of?: { id: string; index: number };
}
export interface Caveat { code: string; text: string }
interface Envelope<K extends Kind, P, O, A> {
  schema: string;
  kind: K;
  run: Run;
  plan: P;
  observation: O;
  analysis: A;
  findings: Finding[];
  caveats: Caveat[];
}

// Throughput.
export interface ThroughputPlan {
  direction: "forward" | "reverse" | "both";
  transport: "tcp" | { udp: { rate_bps: number } };
  streams: number;
  send_buffer_bytes?: number;
  receive_buffer_bytes?: number;
  congestion_control?: string;
  pacing_bps?: number;
  mode: "delivered" | "wire";
  scavenger?: boolean;
}
export interface Tcp {
  rtt_us: number;
  cwnd_bytes: number;
  retransmitted_segments: number;
  bytes_acked?: number;
  busy_us?: number;
  receive_window_limited_us?: number;
  send_buffer_limited_us?: number;
}
export interface Sample { at_us: number; bytes: number; blocked_us: number; tcp?: Tcp }
export interface StreamEnd {
  local?: string;
  peer?: string;
  bytes: number;
  started_us: number;
  duration_us: number;
  mss_bytes?: number;
  congestion_control?: string;
  send_buffer?: SocketBuffer;
  receive_buffer?: SocketBuffer;
  error?: string;
  samples?: Sample[];
}
export interface SocketBuffer { asked_bytes?: number; granted_bytes: number; stored_bytes: number }
export interface Stream { index: number; sender: StreamEnd; receiver: StreamEnd }
export interface HostFacts {
  name: string;
  kernel: string;
  cores: number;
  congestion_control?: string;
  interface?: { name: string; mtu_bytes?: number; speed_bps?: number };
}
export interface End { host: HostFacts; bytes: number; cpu_user_us?: number; cpu_system_us?: number }
export interface ThroughputObservation {
  forward: boolean;
  elapsed_us: number;
  idle_rtt_us?: number;
  same_host?: boolean;
  streams: Stream[];
  ends: { sender: End; receiver: End };
  reverse?: ThroughputObservation;
}
export interface Bound { limiter: string; rate_bps: number; why: string }
export interface ThroughputAnalysis {
  version: number;
  goodput_bps?: number;
  goodput_interval_bps?: Two;
  mean_goodput_bps?: number;
  steady?: { from_us: number; to_us: number };
  ramp_us?: number;
  rtt_us?: { min: number; mean: number; max: number; stddev: number };
  limited_by: string;
  confidence_ratio: number;
  shares: { state: string; limiter: string; share_ratio: number }[];
  bounds: Bound[];
  next_limit?: Bound;
  totals: {
    sender_bytes: number;
    receiver_bytes: number;
    data_segments_sent?: number;
    retransmitted_segments?: number;
    packets_sent?: number;
    packets_received?: number;
    loss_ratio?: number;
    jitter_us?: number;
    stream_errors: number;
  };
  streams: {
    index: number;
    bytes: number;
    duration_us: number;
    goodput_bps?: number;
    retransmitted_segments?: number;
    rtt_min_us?: number;
    cwnd_max_bytes?: number;
  }[];
  reverse?: ThroughputAnalysis;
}
export type Throughput = Envelope<"throughput", ThroughputPlan, ThroughputObservation, ThroughputAnalysis>;

// Scan.
export interface Setting { window_bytes?: number; streams: number; congestion_control?: string; pacing_bps?: number }
export interface ScanCell {
  index: number;
  setting: Setting;
  forward: boolean;
  sentinel?: boolean;
  why?: string;
  run_id?: string;
  error?: string;
  goodput_bps?: number;
  goodput_interval_bps?: Two;
  limited_by?: string;
  loaded_rtt_us?: number;
}
export interface Choice {
  setting: Setting;
  goodput_bps: number;
  goodput_interval_bps?: Two;
  probes: number;
  limited_by: string;
  loaded_rtt_us?: number;
  retransmitted_ratio?: number;
}
export interface Curve {
  window_bytes?: number;
  congestion_control?: string;
  points: { streams: number; goodput_bps: number; range_bps?: Two; repeats: number; limited_by: string }[];
}
export interface Need { place: string; host: string; name: string; is?: string; wanted: string; why: string }
export interface Conclusion {
  forward: boolean;
  best?: Choice;
  recommended?: Choice;
  default?: Choice;
  present?: Choice;
  curves?: Curve[];
  needs?: Need[];
}
export interface ScanAnalysis {
  version: number;
  directions: Conclusion[];
  probes_run: number;
  grid_cells: number;
  stopped_by: string;
  asymmetry?: { median_ratio: number; cause?: string };
  regimes?: { first_cell: number; last_cell: number; change?: string }[];
}
export type Scan = Envelope<"scan", { search: "guided" | "grid" }, { cells: ScanCell[] }, ScanAnalysis>;

// Path.
export interface Answer {
  address: string;
  name?: string;
  autonomous_system?: number;
  place?: string;
  rtts_ns?: number[];
  kind: string;
}
export interface Hop { ttl: number; sent: number; answers: Answer[]; rate_limited?: boolean }
export interface Route {
  from: string;
  to: string;
  protocol: string;
  hops: Hop[];
  reached: boolean;
  ended_by: string;
}
export interface PathRtt {
  sent: number;
  answered: number;
  min_ns: number;
  avg_ns: number;
  max_ns: number;
  median_ns: number;
  stddev_ns: number;
  loss_ratio: number;
  loss_interval_ratio: Two;
}
export interface PathAnalysis {
  version: number;
  rtt?: PathRtt;
  rtt_reverse?: PathRtt;
  hops: { ttl: number; rtt_min_ns?: number; link_ns?: number; state: string }[];
  path_mtu?: { bytes: number; refused_bytes?: number; black_hole: boolean };
  narrow_link?: { verdict: string; text: string; capacity_bps?: number; confidence_ratio: number };
  route_number?: number;
  route_change?: RouteChange;
  symmetry?: { text: string };
}
export interface PathObservation {
  address: string;
  route?: Route;
  route_reverse?: Route;
  missing?: { what: string; why: string }[];
}
export type PathReport = Envelope<"path", { protocol: string }, PathObservation, PathAnalysis>;

// Available bandwidth.
export interface Estimate {
  verdict: string;
  capacity_bps?: number;
  capacity_interval_bps?: Two;
  available_bps?: number;
  available_interval_bps?: Two;
  methods?: { name: string; available_bps?: number; interval_bps?: Two; weight_ratio: number; invalid?: string }[];
  probe_bytes: number;
  duration_us: number;
  loss_ratio: number;
  flags?: string[];
  bucket?: { kind: string; peak_bps: number; sustained_bps: number; burst_bytes: number; confidence_ratio: number };
}
export interface AvailableAnalysis { version: number; forward?: Estimate; reverse?: Estimate }
export type Available = Envelope<"available", { mode: string }, { idle_rtt_us?: number }, AvailableAnalysis>;

// Load.
export interface Delays { probes: number; rtt_min_ns: number; rtt_median_ns: number; rtt_p95_ns: number; rtt_max_ns: number; loss_ratio: number }
export interface LoadStep { streams: number; congestion_control?: string; rate_bps?: number; scavenger?: boolean; competitor?: boolean; baseline?: boolean }
export interface LoadAnalysis {
  version: number;
  idle?: Delays;
  steps: { step: number; delays?: Delays | null; goodput_bps?: number; rise_ns?: number; queue_bytes?: number; recovery_us?: number; grew?: string }[];
  scavenger?: { text: string };
}
export interface LoadPhase { from_us: number; until_us: number; step?: number; error?: string }
export interface LoadProbe { at_us: number; rtt_ns?: number }
export type Load = Envelope<"load", { forward: boolean; steps: LoadStep[]; responsiveness?: unknown }, { probes: LoadProbe[]; phases: LoadPhase[] }, LoadAnalysis>;

// Transfers of other programs.
export interface ObservedTransfer {
  /** The number is 0 if the name is experiment and activity of fireflies. */
  process?: { pid: number; name: string; parent?: string };
  peer: string;
  service_port: number;
  sends: boolean;
  plan: ThroughputPlan;
  run: ThroughputObservation;
}
export interface TransferAnalysis {
  run: ThroughputAnalysis;
  requests?: { request_bytes: number; round_trip_bytes: number; bound_bps: number };
  /** Places in the findings of the report. */
  finding_index?: number[];
}
export interface FlowsObservation { host: HostFacts; elapsed_us: number; matching_flows: number; transfers: ObservedTransfer[] }
export type Flows = Envelope<"flows", { selector: string; flows_max: number }, FlowsObservation, { version: number; transfers: TransferAnalysis[] }>;

// Host.
export interface Verdict {
  rule: string;
  grade: "limits" | "advice" | "good" | "unknown";
  text: string;
  path?: string;
  bound_bps?: number;
  remedies?: { name?: string; value?: string; command?: string; text: string }[];
  source: string;
}
export interface HostObservation {
  host: HostFacts;
  readings: Record<string, string>;
  unread?: Record<string, string>;
  effective: { what: string; asked: string; got: string; granted: boolean }[];
  changes?: { name: string; before: string; wanted: string; after?: string; error?: string; reverted?: boolean }[];
}
export interface HostAnalysis { version: number; verdicts: Verdict[]; proof?: { kept: boolean; text: string } }
export interface HostPath { name: string; rtt_us: number; rate_bps: number; origin: string }
export type HostReport = Envelope<"host", { paths: HostPath[] }, HostObservation, HostAnalysis>;

// Prediction.
export interface PredictCell {
  setting: Setting;
  loss_ratio: number;
  goodput_bps: number;
  limited_by: string;
  measured_bps?: number;
  disagreement_ratio?: number;
  meaning?: string;
}
export interface PredictAnalysis { version: number; cells: PredictCell[]; agreement?: { cells: number; median_error_ratio: number; rank_correlation?: number } }
export type Predict = Envelope<"predict", unknown, unknown, PredictAnalysis>;

// What other programs printed; every reading may be absent.
export interface Transfer {
  bytes?: number;
  rounding_bytes?: number;
  duration_us?: number;
  printed_bps?: number;
  retransmitted_packets?: number;
  datagrams?: number;
  lost_datagrams?: number;
  jitter_us?: number;
  rtt_min_us?: number;
  rtt_mean_us?: number;
}
export interface ImportedStream { name: string; sender?: Transfer; receiver?: Transfer; either?: Transfer }
export interface ImportedHop {
  ttl_index: number;
  host?: string;
  addresses?: string[];
  rtts_us?: number[];
  bounded_packets?: number;
  unanswered_packets?: number;
  loss_ratio?: number;
  rtt_min_us?: number;
}
export interface ImportedPings {
  sent_packets?: number;
  received_packets?: number;
  rtt_min_us?: number;
  rtt_mean_us?: number;
  rtt_max_us?: number;
}
export interface ImportedObservation {
  tool: string;
  tool_version?: string;
  command?: string;
  protocol?: string;
  streams?: ImportedStream[];
  sender?: Transfer;
  receiver?: Transfer;
  either?: Transfer;
  pings?: ImportedPings;
  hops?: ImportedHop[];
  printed?: { name: string; text: string }[];
  missing: string[];
}
export interface ImportedAnalysis {
  version: number;
  streams?: number;
  goodput_bps?: number;
  counted_by?: string;
  sum_of_streams_bps?: number;
  rtt_min_us?: number;
}
export interface ImportedPlan { format: string; file?: string; index: number; time_from: string }
export type Imported = Envelope<"imported", ImportedPlan, ImportedObservation, ImportedAnalysis>;

export type AnyReport = Throughput | Scan | PathReport | Available | Load | HostReport | Predict | Imported | Flows;
