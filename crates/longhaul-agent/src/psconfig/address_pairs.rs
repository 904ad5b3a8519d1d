//! The addresses of a group, and the tests of a task that this host begins.

use super::template_parts::{
    AddressClass, AddressFilter, AddressGroup, AddressSelector, ClassSourceKind, PairRules,
    PsconfigTemplate, SelfExclusion, TemplateAddress, TemplateHost, TemplateTask,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

/// The maximum number of pairs of a template that are looked at.
const MAX_PAIRS: usize = 5_000_000;
/// The maximum depth of filters in filters and classes.
const MAX_FILTER_DEPTH: usize = 32;

/// An address of a group as another one sees it.
#[derive(Debug, Clone, Copy)]
pub struct SeenAddress<'t> {
    /// Its name in the template.
    pub name: &'t str,
    pub label: Option<&'t str>,
    /// The entry that applies: the address, a label, or an entry for a remote address.
    entry: &'t TemplateAddress,
    /// The address itself.
    own: &'t TemplateAddress,
    /// The entry for a remote address, if a label of it applies.
    remote: Option<&'t TemplateAddress>,
}

impl<'t> SeenAddress<'t> {
    /// Returns the host of the address.
    pub fn host(&self, template: &'t PsconfigTemplate) -> Option<&'t TemplateHost> {
        self.own.host.as_ref().and_then(|host| template.hosts.get(host))
    }

    pub fn address(&self) -> &'t str {
        self.entry.address.as_deref().unwrap_or_default()
    }

    pub fn pscheduler_address(&self) -> &'t str {
        self.entry.pscheduler_address.as_deref().unwrap_or(self.address())
    }

    pub fn lead_bind_address(&self) -> &'t str {
        self.entry.lead_bind_address.as_deref().unwrap_or(self.address())
    }

    /// Returns whether this holds of the entry or of one that it is part of.
    fn any(&self, holds: impl Fn(&TemplateAddress) -> bool) -> bool {
        holds(self.entry) || holds(self.own) || self.remote.is_some_and(holds)
    }
}

/// A test that this host begins.
#[derive(Debug)]
pub struct OwnTest<'t> {
    /// The participants, in order.
    pub participants: Vec<SeenAddress<'t>>,
    /// The index of this host among them.
    pub own_index: usize,
    /// Another participant should begin, but has no agent.
    pub flip: bool,
}

/// Finds the tests that this host begins.
pub struct PairFinder<'t> {
    template: &'t PsconfigTemplate,
    /// The names of the addresses of this host.
    own: BTreeSet<&'t str>,
    /// The sorted names of the addresses of each class.
    classes: BTreeMap<&'t str, Rc<[&'t str]>>,
    pairs_left: usize,
}

/// One address of a group, and what selected it.
#[derive(Clone, Copy)]
struct PairCandidate<'t> {
    name: &'t str,
    selector: &'t AddressSelector,
    address: &'t TemplateAddress,
}

impl<'t> PairFinder<'t> {
    /// Creates a finder for the host with one of these names or addresses.
    pub fn new(template: &'t PsconfigTemplate, host: &[String]) -> PairFinder<'t> {
        let is_host = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| host.iter().any(|name| name.eq_ignore_ascii_case(text)))
        };
        let is_own = |(name, it): &(&String, &TemplateAddress)| {
            let remotes = it.remote_addresses.values();
            let labels =
                it.labels.values().chain(remotes.flat_map(|remote| remote.labels.values()));
            let entries = labels.chain(it.remote_addresses.values());
            host.iter().any(|own| own.eq_ignore_ascii_case(name))
                || is_host(&it.address)
                || is_host(&it.host)
                || entries.map(|entry| &entry.address).any(is_host)
        };
        let own = template.addresses.iter().filter(is_own).map(|(name, _)| name.as_str());
        let (own, classes) = (own.collect(), BTreeMap::new());
        PairFinder { template, own, classes, pairs_left: MAX_PAIRS }
    }

    /// Returns the names of the addresses of this host.
    pub fn own_names(&self) -> &BTreeSet<&'t str> {
        &self.own
    }

    /// Returns the tests of a task that this host begins.
    ///
    /// # Errors
    /// The reason why the task cannot be taken, as a sentence.
    pub fn find_tests(&mut self, task: &'t TemplateTask) -> Result<Vec<OwnTest<'t>>, String> {
        let group = self.template.groups.get(&task.group);
        let group = group.ok_or_else(|| format!("unknown group {}", task.group))?;
        match group {
            AddressGroup::List { addresses, default_address_label } => {
                let label = default_address_label.as_deref();
                let members = self.expand(addresses)?;
                let members = members.into_iter().filter(|it| self.own.contains(it.name));
                let seen = members.filter_map(|it| select_entry(it, label, None));
                let tests = seen.filter_map(|it| self.begin_test(task, vec![it])).collect();
                Ok(tests)
            }
            AddressGroup::Mesh { addresses, pairs } => {
                let members = self.expand(addresses)?;
                self.find_pairs(task, &members, &members, pairs)
            }
            AddressGroup::Disjoint { a_addresses, b_addresses, unidirectional, pairs } => {
                let (a, b) = (self.expand(a_addresses)?, self.expand(b_addresses)?);
                let mut tests = self.find_pairs(task, &a, &b, pairs)?;
                if !unidirectional {
                    tests.extend(self.find_pairs(task, &b, &a, pairs)?);
                }
                Ok(tests)
            }
        }
    }

    fn find_pairs(
        &mut self,
        task: &'t TemplateTask,
        sources: &[PairCandidate<'t>],
        targets: &[PairCandidate<'t>],
        rules: &'t PairRules,
    ) -> Result<Vec<OwnTest<'t>>, String> {
        let own = |all: &[PairCandidate<'t>]| -> Vec<usize> {
            (0..all.len()).filter(|index| self.own.contains(all[*index].name)).collect()
        };
        let (own_sources, own_targets) = (own(sources), own(targets));
        let count = own_sources.len().saturating_mul(targets.len());
        let count = count.saturating_add(own_targets.len().saturating_mul(sources.len()));
        self.pairs_left = self.pairs_left.checked_sub(count).ok_or_else(|| {
            format!("the template has more than {MAX_PAIRS} pairs with this host")
        })?;
        let excluded = rules.excludes.iter().flat_map(|it| {
            it.target_addresses.iter().map(move |target| (&it.local_address, target))
        });
        let excluded: BTreeSet<(&AddressSelector, &AddressSelector)> = excluded.collect();
        let as_source =
            own_sources.iter().flat_map(|a| targets.iter().map(move |b| (&sources[*a], b)));
        let as_target = own_targets.iter().flat_map(|b| {
            let others = sources.iter().filter(|a| !self.own.contains(a.name));
            others.map(move |a| (a, &targets[*b]))
        });
        let label = rules.default_address_label.as_deref();
        let tests = as_source.chain(as_target).filter_map(|(a, b)| {
            if excluded.contains(&(a.selector, b.selector)) {
                return None;
            }
            let one = select_entry(*a, label, Some(b.name))?;
            let other = select_entry(*b, label, Some(a.name))?;
            if is_same(&one, &other, rules.excludes_self) {
                return None;
            }
            self.begin_test(task, vec![one, other])
        });
        Ok(tests.collect())
    }

    /// Returns the test if this host begins it: if its address is that which the task names, or the
    /// first with an agent.
    fn begin_test(
        &self,
        task: &TemplateTask,
        participants: Vec<SeenAddress<'t>>,
    ) -> Option<OwnTest<'t>> {
        let is_disabled = |it: &SeenAddress<'t>| {
            it.any(|entry| entry.disabled)
                || it.host(self.template).is_some_and(|host| host.disabled)
        };
        let has_agent = |it: &SeenAddress<'t>| {
            !it.any(|entry| entry.no_agent)
                && !it.host(self.template).is_some_and(|host| host.no_agent)
        };
        if participants.iter().any(is_disabled) {
            return None;
        }
        let usual = participants.get(task.scheduled_by)?;
        let flip = !has_agent(usual);
        let own_index =
            if flip { participants.iter().position(has_agent)? } else { task.scheduled_by };
        let is_own = self.own.contains(participants[own_index].name);
        is_own.then_some(OwnTest { participants, own_index, flip })
    }

    /// Returns the addresses that the selectors choose.
    fn expand(
        &mut self,
        selectors: &'t [AddressSelector],
    ) -> Result<Vec<PairCandidate<'t>>, String> {
        let mut found = Vec::new();
        for selector in selectors.iter().filter(|it| !it.disabled) {
            let names: Rc<[&'t str]> = match (&selector.name, &selector.class) {
                (Some(name), _) => [name.as_str()].into(),
                (None, Some(class)) => self.list_class(class, 0)?,
                (None, None) => return Err("a selector has neither name nor class".to_owned()),
            };
            for name in names.iter().copied() {
                let address = self.template.addresses.get(name);
                let address = address.ok_or_else(|| format!("unknown address {name}"))?;
                found.push(PairCandidate { name, selector, address });
            }
        }
        Ok(found)
    }

    /// Returns the names of the addresses of a class.
    fn list_class(&mut self, name: &'t str, depth: usize) -> Result<Rc<[&'t str]>, String> {
        if let Some(known) = self.classes.get(name) {
            return Ok(Rc::clone(known));
        }
        let class: &'t AddressClass = self
            .template
            .address_classes
            .get(name)
            .ok_or_else(|| format!("unknown address class {name}"))?;
        let mut found = Vec::new();
        for (name, address) in &self.template.addresses {
            let is_source = match class.data_source.kind {
                ClassSourceKind::CurrentConfig => true,
                ClassSourceKind::RequestingAgent => self.own.contains(name.as_str()),
            };
            let accepts = |finder: &mut Self, filter: &'t Option<AddressFilter>, without| {
                let filter = filter.as_ref();
                filter.map_or(Ok(without), |it| finder.matches(it, name, address, depth + 1))
            };
            if is_source
                && accepts(self, &class.match_filter, true)?
                && !accepts(self, &class.exclude_filter, false)?
            {
                found.push(name.as_str());
            }
        }
        let found: Rc<[&'t str]> = found.into();
        self.classes.insert(name, Rc::clone(&found));
        Ok(found)
    }

    fn matches(
        &mut self,
        filter: &'t AddressFilter,
        name: &'t str,
        address: &'t TemplateAddress,
        depth: usize,
    ) -> Result<bool, String> {
        if depth > MAX_FILTER_DEPTH {
            return Err("address classes refer to each other in a cycle, or too deeply".to_owned());
        }
        let host = address.host.as_ref().and_then(|host| self.template.hosts.get(host));
        let text = address.address.as_deref().unwrap_or_default();
        Ok(match filter {
            AddressFilter::Tag { tag } => address.tags.contains(tag),
            AddressFilter::Host { jq: Some(_), .. } | AddressFilter::Jq {} => {
                return Err("filters of type jq are not evaluated".to_owned());
            }
            AddressFilter::Host { no_agent, tag, jq: None } => host.is_some_and(|host| {
                no_agent.is_none_or(|it| it == host.no_agent)
                    && tag.as_ref().is_none_or(|tag| host.tags.contains(tag))
            }),
            AddressFilter::IpVersion { ip_version } => {
                let version =
                    text.parse::<IpAddr>().ok().map(|it| if it.is_ipv4() { 4 } else { 6 });
                version == Some(*ip_version)
            }
            AddressFilter::Netmask { netmask } => is_in_network(text, netmask)?,
            AddressFilter::AddressClass { class } => {
                self.list_class(class, depth)?.binary_search(&name).is_ok()
            }
            AddressFilter::Not { filter } => !self.matches(filter, name, address, depth + 1)?,
            AddressFilter::And { filters } => {
                for filter in filters {
                    if !self.matches(filter, name, address, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            AddressFilter::Or { filters } => {
                for filter in filters {
                    if self.matches(filter, name, address, depth + 1)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

/// Returns the entry of an address that applies to a remote address and a label; `None` if the
/// address does not take part.
fn select_entry<'t>(
    candidate: PairCandidate<'t>,
    default_label: Option<&'t str>,
    remote_name: Option<&str>,
) -> Option<SeenAddress<'t>> {
    let own = candidate.address;
    let label = candidate.selector.label.as_deref().or(default_label);
    let seen = |entry, remote| SeenAddress { name: candidate.name, label, entry, own, remote };
    let remote = remote_name.and_then(|name| own.remote_addresses.get(name));
    let found = match (remote, label) {
        (Some(remote), Some(label)) if remote.labels.contains_key(label) => {
            seen(&remote.labels[label], Some(remote))
        }
        (Some(remote), None) if remote.address.is_some() => seen(remote, None),
        (Some(remote), Some(_)) if remote.address.is_none() => return None,
        (_, Some(label)) => seen(own.labels.get(label)?, None),
        (_, None) => seen(own, None),
    };
    found.entry.address.is_some().then_some(found)
}

/// Returns whether a pair is one of a host with itself. longhaul never measures an address from
/// itself.
fn is_same(one: &SeenAddress, other: &SeenAddress, rule: SelfExclusion) -> bool {
    let hosts = one.own.host.as_deref().zip(other.own.host.as_deref());
    let is_one_host = hosts.is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
    (rule == SelfExclusion::Host && is_one_host)
        || one.own.address == other.own.address
        || one.address() == other.address()
}

/// Returns whether an address is in a network such as `192.0.2.0/24`. Names are in none.
fn is_in_network(address: &str, network: &str) -> Result<bool, String> {
    let parts = network
        .split_once('/')
        .and_then(|(base, bits)| Some((base.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?)));
    let (base, bits) = parts.ok_or_else(|| format!("{network} is not a network"))?;
    let shift =
        |width: u32| width.checked_sub(bits).ok_or_else(|| format!("{network} is not a network"));
    Ok(match (address.parse(), base) {
        (Ok(IpAddr::V4(it)), IpAddr::V4(base)) => {
            let shift = shift(32)?;
            it.to_bits().checked_shr(shift) == base.to_bits().checked_shr(shift)
        }
        (Ok(IpAddr::V6(it)), IpAddr::V6(base)) => {
            let shift = shift(128)?;
            it.to_bits().checked_shr(shift) == base.to_bits().checked_shr(shift)
        }
        _ => false,
    })
}
