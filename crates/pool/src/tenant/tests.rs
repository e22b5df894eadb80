use proptest::prelude::*;

use super::*;

/// A server of so many places, and tenants that always have as many statements waiting as they
/// may: `costs_us` says what a tenant's statements take.
struct World {
    accounts: Accounts,
    places: u32,
    costs_us: Vec<u64>,
    /// When what runs ends, µs, and whose it is.
    running: BTreeSet<(u64, u64, TenantId)>,
    nth: u64,
    now_us: u64,
    /// Server time by tenant, µs.
    used_us: Vec<u64>,
    /// The longest that a tenant had nothing begin though it waited, µs, and since when.
    starved_us: Vec<(u64, u64)>,
}

impl World {
    fn new(places: u32, terms: &[Terms], costs_us: Vec<u64>) -> Self {
        let mut accounts = Accounts::default();
        accounts.set_terms(terms);
        let count = terms.len();
        let (used_us, starved_us) = (vec![0; count], vec![(0, 0); count]);
        let running = BTreeSet::new();
        Self { accounts, places, costs_us, running, nth: 0, now_us: 0, used_us, starved_us }
    }

    fn room(&self) -> Room {
        let taken = u32::try_from(self.running.len()).expect("few");
        Room { places: Some(self.places), taken }
    }

    /// Has those run that wait, for so long; `wants` says who has something to run.
    fn play(&mut self, for_us: u64, wants: impl Fn(u16) -> bool) {
        let until_us = self.now_us + for_us;
        for tenant in (0..).take(self.costs_us.len()).filter(|tenant| wants(*tenant)) {
            if self.accounts.counts(TenantId::new(usize::from(tenant))).1 == 0 {
                self.accounts.wait(TenantId::new(usize::from(tenant)), self.now_us);
                self.starved_us[usize::from(tenant)].1 = self.now_us;
            }
        }
        while self.now_us < until_us {
            while let Some(tenant) = self.next() {
                self.begin(tenant);
            }
            let Some((end_us, nth, tenant)) = self.running.pop_first() else { return };
            self.now_us = end_us;
            let took_us = self.costs_us[tenant.index()];
            self.accounts.end(tenant, true, took_us, end_us);
            let _ = nth;
        }
    }

    fn next(&self) -> Option<TenantId> {
        self.accounts.in_turn(self.room(), self.now_us).next()
    }

    fn begin(&mut self, tenant: TenantId) {
        let cost_us = self.costs_us[tenant.index()];
        // The next one waits already.
        self.accounts.wait(tenant, self.now_us);
        self.accounts.leave(tenant);
        self.accounts.begin(tenant, true, self.now_us);
        self.nth += 1;
        self.running.insert((self.now_us + cost_us, self.nth, tenant));
        self.used_us[tenant.index()] += cost_us;
        let (longest_us, since_us) = &mut self.starved_us[tenant.index()];
        *longest_us = (*longest_us).max(self.now_us - *since_us);
        *since_us = self.now_us;
    }
}

fn weight(weight: u32) -> Terms {
    Terms { weight, ..Terms::default() }
}

#[test]
fn short_statements_are_not_behind_long_ones() {
    let mut world = World::new(4, &[weight(1), weight(1)], vec![50_000, 100]);
    world.play(10_000_000, |_| true);
    let [scans, selects] = [world.used_us[0], world.used_us[1]];
    assert!(scans.abs_diff(selects) <= 4 * 50_000, "{scans} and {selects}");
}

#[test]
fn an_idle_tenant_comes_back_with_its_burst_and_no_more() {
    let mut world = World::new(1, &[weight(1), weight(1)], vec![1_000, 1_000]);
    world.play(5_000_000, |tenant| tenant == 0);
    assert_eq!(world.used_us[1], 0);
    let before = world.used_us[0];
    world.play(1_000_000, |_| true);
    let gained = world.used_us[0] - before;
    let own = world.used_us[1];
    assert!((95_000..110_000).contains(&(own - gained)), "{own} against {gained}");
}

#[test]
fn a_higher_priority_goes_first_but_leaves_guaranteed_shares() {
    let high = Terms { priority: 2, ..weight(1) };
    let guaranteed = Terms { share_min: 25, ..weight(1) };
    let mut world = World::new(4, &[weight(9), high, guaranteed], vec![1_000; 3]);
    world.play(1_000_000, |_| true);
    assert_eq!(world.used_us[0], 0, "there is always somebody before it");
    assert!(world.used_us[2].abs_diff(1_000_000) <= 2_000, "{:?}", world.used_us);
    assert!(world.used_us[1].abs_diff(3_000_000) <= 4_000, "{:?}", world.used_us);
}

#[test]
fn who_comes_back_is_behind_none_of_its_priority_for_what_others_have_used() {
    let high = Terms { priority: 1, ..weight(1) };
    let none = Terms { burst_ms: 0, ..weight(1) };
    let mut accounts = Accounts::default();
    accounts.set_terms(&[high, none, none]);
    let [first, second, third] = [0, 1, 2].map(TenantId::new);
    for tenant in [first, second] {
        accounts.begin(tenant, true, 1);
        accounts.end(tenant, true, 1_000_000, 1_000_001);
    }
    accounts.begin(first, true, 2_000_000);
    // It was idle all the time, and begins where the second one began.
    accounts.wait(third, 3_000_000);
    accounts.wait(second, 3_000_000);
    let waiting: Vec<_> = accounts.waiting().collect();
    assert_eq!(waiting, [third, second]);
}

#[test]
fn a_guaranteed_share_is_kept_free_while_its_tenant_is_active() {
    let guaranteed = Terms { share_min: 50, ..weight(1) };
    let mut accounts = Accounts::default();
    accounts.set_terms(&[weight(1), guaranteed]);
    let room = |taken| Room { places: Some(4), taken };
    assert!(accounts.may_begin(TenantId::new(0), room(3), 5_000_000), "nobody has come yet");
    accounts.begin(TenantId::new(1), true, 5_000_000);
    accounts.end(TenantId::new(1), true, 100, 5_000_000);
    assert!(accounts.may_begin(TenantId::new(0), room(1), 5_500_000));
    assert!(!accounts.may_begin(TenantId::new(0), room(2), 5_500_000), "two places are kept");
    assert!(accounts.may_begin(TenantId::new(1), room(2), 5_500_000));
    assert!(accounts.may_begin(TenantId::new(0), room(2), 6_000_001), "it has gone");
}

#[test]
fn a_ceiling_holds_though_places_are_free() {
    let mut world = World::new(8, &[Terms { share_max: 25, ..weight(9) }], vec![1_000]);
    world.play(10_000, |_| true);
    assert_eq!(world.running.len() + 1, 2);
    let mut accounts = Accounts::default();
    accounts.set_terms(&[Terms { share_max: 1, ..weight(1) }]);
    let room = Room { places: Some(2), taken: 0 };
    assert!(accounts.may_begin(TenantId::new(0), room, 0), "one place it has always");
    assert!(accounts.may_begin(TenantId::new(0), Room { places: None, taken: 99 }, 0));
}

#[test]
fn those_beyond_the_limit_share_an_account() {
    let mut accounts = Accounts::default();
    accounts.begin(TenantId::new(usize::MAX), true, 1);
    assert_eq!(accounts.counts(TenantId::OTHERS), (1, 0));
    assert!(accounts.accounts.len() <= TENANTS_MAX);
}

#[test]
fn a_wait_is_expected_by_the_turns_that_came() {
    let mut accounts = Accounts::default();
    (0..5).for_each(|_| accounts.wait(TenantId::new(0), 1_000));
    assert_eq!(accounts.expected_wait_us(TenantId::new(0)), 0, "nothing is known");
    accounts.leave(TenantId::new(0));
    accounts.begin(TenantId::new(0), true, 11_000);
    assert_eq!(accounts.expected_wait_us(TenantId::new(0)), 40_000);
}

proptest! {
    /// Whoever has always something to run gets its part by weight of what is used, within what
    /// one statement takes on each place and the bursts; and nobody waits for longer than all
    /// others' statements can account for.
    #[test]
    fn shares_are_by_weight_and_nobody_starves(
        places in 1_u32..9,
        tenants in prop::collection::vec((1_u32..20, 100_u64..50_000), 2..8),
    ) {
        let terms: Vec<Terms> = tenants.iter().map(|(it, _)| weight(*it)).collect();
        let costs: Vec<u64> = tenants.iter().map(|(_, cost)| *cost).collect();
        let mut world = World::new(places, &terms, costs.clone());
        // Before it is judged each has an average.
        world.play(1_000_000, |_| true);
        let before = world.used_us.clone();
        world.play(20_000_000, |_| true);
        let used = world.used_us.iter().zip(&before).map(|(now, then)| now - then);
        let used: Vec<u64> = used.collect();
        let (total, weights): (u64, u64) =
            (used.iter().sum(), terms.iter().map(|it| u64::from(it.weight)).sum());
        let longest = costs.iter().max().expect("some");
        let slack = 2 * longest * u64::from(places);
        for (used, terms) in used.iter().zip(&terms) {
            let fair = total * u64::from(terms.weight) / weights;
            // Another's long statements may keep its places from it, but one for each.
            let off = slack * u64::from(terms.weight).max(weights) / weights.max(1) + slack;
            prop_assert!(used.abs_diff(fair) <= off, "{used} for {fair}, {off} off");
        }
        for ((longest_us, _), terms) in world.starved_us.iter().zip(&terms) {
            let bound = 2 * longest * (1 + weights / u64::from(terms.weight)) + 100_000;
            prop_assert!(*longest_us <= bound, "{longest_us} of {bound}");
        }
    }

    /// Counts agree and never are negative, whatever happens; and whoever waits while nobody runs
    /// may begin.
    #[test]
    fn somebody_may_always_begin_where_nothing_runs(
        places in 1_u32..5,
        shares in prop::collection::vec((0_u32..30, 1_u32..101), 3),
        steps in prop::collection::vec((0_u16..3, any::<bool>()), 1..80),
    ) {
        let terms: Vec<Terms> = shares
            .iter()
            .map(|(share_min, share_max)| Terms {
                share_min: *share_min,
                share_max: *share_max,
                ..weight(1)
            })
            .collect();
        let mut accounts = Accounts::default();
        accounts.set_terms(&terms);
        let (mut running, mut now_us) = (Vec::new(), 0);
        for (tenant, ends) in steps {
            now_us += 700;
            let taken = u32::try_from(running.len()).expect("few");
            let room = Room { places: Some(places), taken };
            accounts.wait(TenantId::new(usize::from(tenant)), now_us);
            let next = accounts.in_turn(room, now_us).next();
            if let Some(next) = next {
                prop_assert!(taken < places);
                accounts.leave(next);
                accounts.begin(next, true, now_us);
                running.push(next);
            } else {
                prop_assert!(taken > 0, "nothing runs, and {tenant} may not begin");
            }
            if ends && let Some(tenant) = running.pop() {
                accounts.end(tenant, true, 500, now_us);
            }
            let counts = (0..3).map(|it| accounts.counts(TenantId::new(it)));
            let sum: u32 = counts.map(|(running, _)| running).sum();
            prop_assert_eq!(sum as usize, running.len());
        }
    }
}
