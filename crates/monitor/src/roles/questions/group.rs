//! What a member of a group (Group Replication) says of itself.

use trunkline_cluster::facts::{Endpoint, Facts, Membership};

use super::Table;

/// Who is in the group, as the member sees it.
pub(super) const MEMBERS: &str = "SELECT MEMBER_HOST, MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE, \
    MEMBER_ID = @@server_uuid AS IS_OWN FROM performance_schema.replication_group_members";
/// How many transactions the member has received and not applied yet.
pub(super) const BEHIND: &str = "SELECT COUNT_TRANSACTIONS_IN_QUEUE, \
    COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE \
    FROM performance_schema.replication_group_member_stats WHERE MEMBER_ID = @@server_uuid";

/// Completes what is known of a member by what it says of its group.
pub(super) fn complete(facts: Facts, members: &Table<'_>, behind: &Table<'_>) -> Facts {
    let number = |name: &str| -> u64 {
        behind.text(0, &[name]).and_then(|count| count.parse().ok()).unwrap_or_default()
    };
    let names = ["COUNT_TRANSACTIONS_IN_QUEUE", "COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE"];
    let behind: u64 = names.map(number).iter().sum();
    let own = members.rows().find(|row| members.text(*row, &["IS_OWN"]).as_deref() == Some("1"));
    let text = |row: usize, name: &str| members.text(row, &[name]).unwrap_or_default();
    let is_primary = own.is_some_and(|own| text(own, "MEMBER_ROLE") == "PRIMARY");
    // A minority still calls itself online.
    let (all, lost) = members.rows().fold((0, 0), |(all, lost), row| {
        let is_lost = matches!(text(row, "MEMBER_STATE").as_str(), "UNREACHABLE" | "ERROR");
        (all + 1, lost + usize::from(is_lost))
    });
    let refusal = match own.map(|own| text(own, "MEMBER_STATE")) {
        None => Some("it is in no group".to_owned()),
        Some(state) if state != "ONLINE" => Some(format!("its member state is {state}")),
        Some(_) if lost * 2 >= all => Some(format!("it does not reach {lost} of {all} members")),
        Some(_) => None,
    };
    let is_writable = facts.is_writable && is_primary;
    let yes = |is_so: bool| if is_so { "YES" } else { "NO" }.to_owned();
    let told = vec![yes(refusal.is_none()), yes(!is_writable), behind.to_string()];
    Facts {
        is_writable,
        membership: Some(Membership { refusal, behind, told, view: None }),
        replicas: endpoints(members),
        ..facts
    }
}

fn endpoints(members: &Table<'_>) -> Vec<Endpoint> {
    members.endpoints("MEMBER_HOST", "MEMBER_PORT")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::questions::tests::answer;

    /// What a member is, by its own row and the states of two others.
    fn member(state: &str, role: &str, others: [&str; 2]) -> (Option<String>, bool) {
        let columns = ["MEMBER_HOST", "MEMBER_PORT", "MEMBER_STATE", "MEMBER_ROLE", "IS_OWN"];
        let members = answer(
            &columns,
            &[
                &["db1", "3306", state, role, "1"],
                &["db2", "3306", others[0], "SECONDARY", "0"],
                &["db3", "3306", others[1], "SECONDARY", "0"],
            ],
        );
        let columns = ["COUNT_TRANSACTIONS_IN_QUEUE", "COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE"];
        let behind = answer(&columns, &[&["2", "5"]]);
        let facts = Facts { is_writable: true, ..Facts::default() };
        let facts = complete(facts, &Table(&members), &Table(&behind));
        assert_eq!(facts.replicas.len(), 3);
        let membership = facts.membership.unwrap_or_default();
        assert_eq!(membership.behind, 7);
        (membership.refusal, facts.is_writable)
    }

    #[test]
    fn a_member_serves_that_is_online_and_sees_a_majority() {
        let online = ["ONLINE", "ONLINE"];
        assert_eq!(member("ONLINE", "PRIMARY", online), (None, true));
        assert_eq!(member("ONLINE", "SECONDARY", online), (None, false));
        assert_eq!(member("ONLINE", "PRIMARY", ["ONLINE", "UNREACHABLE"]), (None, true));
        let minority = member("ONLINE", "PRIMARY", ["UNREACHABLE", "UNREACHABLE"]);
        assert_eq!(minority.0.as_deref(), Some("it does not reach 2 of 3 members"));
        let recovering = member("RECOVERING", "SECONDARY", online);
        assert_eq!(recovering.0.as_deref(), Some("its member state is RECOVERING"));
    }

    #[test]
    fn a_server_without_a_group_does_not_serve() {
        let nobody = answer(&["MEMBER_HOST"], &[]);
        let facts = complete(Facts::default(), &Table(&nobody), &Table(&nobody));
        let refusal = facts.membership.and_then(|membership| membership.refusal);
        assert_eq!(refusal.as_deref(), Some("it is in no group"));
    }
}
