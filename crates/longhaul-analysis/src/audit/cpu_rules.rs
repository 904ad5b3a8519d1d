//! Checks that the cores that process packets run at full speed and share the work.
//!
//! Source: see each rule. Units: cores, queues, ratios from 0 to 1.
//! Error: interrupt counts are since boot; a run measures those during the run.
//! Wrong when: another program (irqbalance, tuned) changes these settings with the load.

use super::{
    AuditCase, AuditRule, FAST_BPS, HostReadings, ReadingResult, RuleJudgement, VERY_FAST_BPS,
    judge_advice, judge_good, judge_unless, remedy_by_command, remedy_by_hand,
};
use longhaul_model::report::v1::host::AuditRemedy;

const GOVERNOR: &str = "cpu.governor";
const IRQS: &str = "interface.irq.count";
const IRQ_CORES: &str = "interface.irq.cores";
const BUSIEST: &str = "interface.irq.busiest_ratio";
const ONLINE: &str = "cpu.online";
const QUEUES: [&str; 2] = ["interface.channels.combined", "interface.channels.combined_max"];
const SMT: &str = "cpu.smt";
const NODE: &str = "interface.numa_node";
const IOMMU: &str = "iommu";
/// A core with more than this share of the interrupts does the work of the others as well.
const CROWDED_RATIO: f64 = 0.8;
/// The number of queues beyond which a single host gains nothing.
const QUEUES_ENOUGH: u64 = 16;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_path("governor", judge_governor)
        .title("cores run at full frequency")
        .source("ESnet fasterdata (2010s); Linux admin-guide/pm/cpufreq (2025)"),
    // Changing it takes the link down.
    AuditRule::of_path("receive_queues", judge_receive_queues)
        .title("queues of the interface")
        .source("Linux networking/scaling (2025)"),
    AuditRule::of_path("interrupt_spread", judge_interrupt_spread)
        .title("cores that serve the interface")
        .source("Linux networking/scaling (2025)"),
    AuditRule::of_path("sibling_threads", judge_sibling_threads)
        .title("simultaneous multithreading")
        .source("Linux networking/scaling (2025): no benefit for interrupts"),
    AuditRule::of_path("memory_node", judge_memory_node)
        .title("NUMA node of the interface")
        .source("Linux networking/scaling (2025)"),
    AuditRule::of_path("iommu", judge_iommu)
        .title("address translation for the interface")
        .source("Linux kernel-parameters, iommu.strict (2025)"),
];

fn judge_governor(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let present = case.readings.text(GOVERNOR)?;
    let offered = case.readings.text("cpu.governors").unwrap_or_default();
    let remedy = if offered.split_whitespace().any(|word| word == "performance") {
        AuditRemedy {
            name: Some(GOVERNOR.to_owned()),
            value: Some(String::from("performance")),
            command: Some(String::from("cpupower frequency-set -g performance")),
            text: String::from("Run at full frequency at all times; this costs power"),
        }
    } else {
        remedy_by_hand(
            "Check the firmware settings: the kernel offers no `performance` governor here",
        )
    };
    let is_good = present == "performance" || !case.is_at_least(FAST_BPS);
    let trouble = ": cores that sleep or slow down between bursts are slow to wake up";
    Ok(judge_unless(is_good, present, trouble, remedy))
}

fn judge_receive_queues(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let (present, most) = (case.readings.number(QUEUES[0])?, case.readings.number(QUEUES[1])?);
    let cores = case.readings.number(ONLINE).unwrap_or(QUEUES_ENOUGH);
    let wanted = most.min(cores).min(QUEUES_ENOUGH);
    let remedy = remedy_by_command(
        format!("ethtool -L {} combined {wanted}", case.device()),
        "Use more queues; the link goes down for a moment",
    );
    let what = format!("{present} of {most} queues");
    let is_good = present >= wanted || !case.is_at_least(FAST_BPS);
    let trouble = format!(", with {cores} cores: streams share a core unnecessarily");
    Ok(judge_unless(is_good, &what, &trouble, remedy))
}

fn judge_interrupt_spread(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let irqs = case.readings.number(IRQS)?;
    let cores = case.readings.number(IRQ_CORES)?;
    let online = case.readings.number(ONLINE)?;
    let what = format!("{irqs} interrupts may go to {cores} of {online} cores");
    if irqs < 2 || online < 2 || !case.is_at_least(FAST_BPS) {
        return Ok(judge_good(what));
    }
    let busiest = case.readings.optional(BUSIEST, HostReadings::decimal)?;
    let crowded = busiest.is_some_and(|share| share > CROWDED_RATIO);
    let served = busiest.map_or_else(String::new, |share| {
        format!("; one core handled {:.0} % of them", share.min(1.0) * 100.0)
    });
    let why = "Spread them with /proc/irq/*/smp_affinity_list or the vendor's script";
    Ok(judge_unless(cores > 1 && !crowded, &what, &served, remedy_by_hand(why)))
}

fn judge_sibling_threads(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let smt = case.readings.text(SMT)?;
    let is_good = smt != "on" || !case.is_at_least(VERY_FAST_BPS);
    let trouble = ": two stream threads, or a thread and an interrupt, may share one core";
    let why = "Pin streams to one thread of each core with `-A`, such as `-A 0,2,4`";
    Ok(judge_unless(is_good, smt, trouble, remedy_by_hand(why)))
}

fn judge_memory_node(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let node = case.readings.text(NODE)?;
    let what = format!("{} is on NUMA node {node}", case.device());
    if matches!(node, "0" | "-1") || !case.is_at_least(FAST_BPS) {
        return Ok(judge_good(what));
    }
    case.readings.number(NODE)?;
    let text = format!("{what}: programs on other nodes move every byte across the interconnect");
    Ok(judge_advice(text).remedy(remedy_by_command(
        format!("cat /sys/devices/system/node/node{node}/cpulist"),
        "Run on the cores of that node: `taskset -c`, `numactl -N`, or the option `-A` of `longhaul test`",
    )))
}

fn judge_iommu(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let kinds = case.readings.text(IOMMU)?;
    let strict = kinds.split(|c: char| c.is_whitespace() || c == ',').any(|kind| kind == "DMA");
    let is_good = !strict || !case.is_at_least(FAST_BPS);
    let why = "Boot with iommu=pt or iommu.strict=0; both weaken the protection";
    let trouble = ": every buffer is mapped and unmapped individually";
    Ok(judge_unless(is_good, kinds, trouble, remedy_by_hand(why)))
}
