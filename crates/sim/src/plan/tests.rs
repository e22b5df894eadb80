use super::*;

#[test]
fn every_configuration_of_a_plan_is_valid() {
    for seed in 0..200 {
        let plan = Plan::from_seed(seed, &Limits::default());
        assert!(!plan.configs.is_empty() && !plan.clients.is_empty());
        for config in &plan.configs {
            assert_eq!(config.config().servers.len(), config.servers.len());
        }
    }
}

#[test]
fn a_seed_stands_for_one_plan() {
    let limits = Limits::default();
    assert_eq!(Plan::from_seed(7, &limits), Plan::from_seed(7, &limits));
    assert_ne!(Plan::from_seed(7, &limits), Plan::from_seed(8, &limits));
}
