//! What clients' hosts are called, for rules that name them: the name that an address has, if that
//! name has the address.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
    time::timeout,
};
use trunkline_topology::{HostAnswer, host_name};

/// Look-ups under way at once, those of which nobody waits for the end any more among them.
const LOOKUPS_MAX: usize = 16;

/// An address whose host's name is wanted.
pub struct HostQuestion {
    /// The address.
    pub addr: IpAddr,
    /// Takes the answer.
    pub answer: Box<dyn FnOnce(HostAnswer) + Send>,
}

/// Who knows names and addresses; may block.
pub trait Resolver: Send + Sync + 'static {
    /// The name of an address, `None` when it has none.
    fn name_of(&self, addr: IpAddr) -> io::Result<Option<String>>;
    /// The addresses of a name; none when there is no such name.
    fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's: its hosts file and its name servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn name_of(&self, addr: IpAddr) -> io::Result<Option<String>> {
        found(dns_lookup::lookup_addr(&addr))
    }

    fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(found(dns_lookup::lookup_host(name))?.into_iter().flatten().collect())
    }
}

/// What was found, if anything is there.
fn found<T>(answer: Result<T, dns_lookup::LookupError>) -> io::Result<Option<T>> {
    use dns_lookup::LookupErrorKind::{NoData, NoName};
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), NoName | NoData) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Answers questions until nobody asks any more, each within `time_max`: its turn, and both ways.
///
/// Must run within a tokio runtime. A look-up that takes longer than a login waits goes on in the
/// background, where the system's own time-out ends it, and keeps its turn until then.
pub async fn keep_naming(
    resolver: Arc<dyn Resolver>,
    mut questions: mpsc::Receiver<HostQuestion>,
    time_max: Duration,
) {
    let turns = Arc::new(Semaphore::new(LOOKUPS_MAX));
    while let Some(HostQuestion { addr, answer }) = questions.recv().await {
        let (resolver, turns) = (Arc::clone(&resolver), Arc::clone(&turns));
        tokio::spawn(async move {
            let name = async move {
                // The semaphore is never closed, so that there always is a permit in the end.
                let turn = turns.acquire_owned().await;
                let named = spawn_blocking(move || {
                    let _turn = turn;
                    identify(&*resolver, addr)
                });
                named.await.unwrap_or_else(|error| HostAnswer::Failed(error.to_string()))
            };
            let late =
                || HostAnswer::Failed(format!("no answer within {} ms", time_max.as_millis()));
            answer(timeout(time_max, name).await.unwrap_or_else(|_| late()));
        });
    }
}

/// The name of an address, confirmed by the way back: whoever owns an address can give it any name,
/// but only who owns the name gives that the address.
fn identify(resolver: &dyn Resolver, addr: IpAddr) -> HostAnswer {
    let addr = addr.to_canonical();
    let said = match resolver.name_of(addr) {
        Ok(Some(said)) => said,
        Ok(None) => return HostAnswer::Nameless,
        Err(error) => return HostAnswer::Failed(error.to_string()),
    };
    let Some(name) = host_name(&said) else {
        return HostAnswer::Nameless;
    };
    match resolver.addresses_of(&name) {
        Ok(addresses) if addresses.iter().any(|own| own.to_canonical() == addr) => {
            HostAnswer::Named(name.into())
        }
        Ok(_) => HostAnswer::Unconfirmed(name),
        Err(error) => HostAnswer::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        sync::{Condvar, Mutex},
    };

    use super::*;

    /// Says what the test has written down, and holds its answers back while that is wanted.
    #[derive(Default)]
    struct Played {
        names: HashMap<&'static str, io::Result<Option<&'static str>>>,
        addresses: HashMap<&'static str, Vec<&'static str>>,
        is_held: Mutex<bool>,
        freed: Condvar,
        asked: Mutex<usize>,
    }

    impl Resolver for Played {
        fn name_of(&self, addr: IpAddr) -> io::Result<Option<String>> {
            *self.asked.lock().expect("asked") += 1;
            let held = self.is_held.lock().expect("held");
            drop(self.freed.wait_while(held, |held| *held).expect("held"));
            match self.names.get(&*addr.to_string()) {
                None => Ok(None),
                Some(Ok(name)) => Ok(name.map(str::to_owned)),
                Some(Err(error)) => Err(error.kind().into()),
            }
        }

        fn addresses_of(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let addresses = self.addresses.get(name).into_iter().flatten();
            Ok(addresses.map(|addr| addr.parse().expect("address")).collect())
        }
    }

    fn played() -> Played {
        Played {
            names: HashMap::from([
                ("10.0.0.1", Ok(Some("App-1.example.com."))),
                ("10.0.0.2", Ok(Some("app-1.example.com"))),
                ("10.0.0.3", Ok(Some("gone.example.com"))),
                ("10.0.0.4", Ok(Some("localhost"))),
                ("10.0.0.5", Ok(Some("10.0.0.1"))),
                ("10.0.0.6", Err(io::ErrorKind::TimedOut.into())),
                ("fd00::1", Ok(Some("app-2.example.com"))),
            ]),
            addresses: HashMap::from([
                ("app-1.example.com", vec!["10.0.0.9", "10.0.0.1"]),
                ("app-2.example.com", vec!["10.0.0.8", "fd00::1"]),
                ("localhost", vec!["10.0.0.4"]),
                ("10.0.0.1", vec!["10.0.0.5"]),
            ]),
            ..Played::default()
        }
    }

    #[test]
    fn a_name_counts_where_it_leads_back() {
        let played = played();
        let answer = |addr: &str| identify(&played, addr.parse().expect("address"));
        assert_eq!(answer("10.0.0.1"), HostAnswer::Named("app-1.example.com".into()));
        assert_eq!(answer("::ffff:10.0.0.1"), HostAnswer::Named("app-1.example.com".into()));
        assert_eq!(answer("fd00::1"), HostAnswer::Named("app-2.example.com".into()));
        assert_eq!(answer("10.0.0.2"), HostAnswer::Unconfirmed("app-1.example.com".into()));
        assert_eq!(answer("10.0.0.3"), HostAnswer::Unconfirmed("gone.example.com".into()));
        for nameless in ["10.0.0.4", "10.0.0.5", "10.0.0.77"] {
            assert_eq!(answer(nameless), HostAnswer::Nameless, "{nameless}");
        }
        assert!(matches!(answer("10.0.0.6"), HostAnswer::Failed(_)));
    }

    #[tokio::test]
    async fn a_name_server_that_hangs_holds_nobody_up_for_long() {
        let played = Arc::new(Played { is_held: Mutex::new(true), ..played() });
        let (questions, asked) = mpsc::channel(64);
        let (sender, mut answers) = mpsc::unbounded_channel();
        let time_max = Duration::from_millis(50);
        let naming = tokio::spawn(keep_naming(Arc::clone(&played) as _, asked, time_max));
        for _ in 0..2 * LOOKUPS_MAX {
            let sender = sender.clone();
            let answer = Box::new(move |answer| sender.send(answer).expect("a listener"));
            let addr = "10.0.0.1".parse().expect("address");
            assert!(questions.send(HostQuestion { addr, answer }).await.is_ok());
        }
        for _ in 0..2 * LOOKUPS_MAX {
            let answer = answers.recv().await.expect("an answer");
            assert_eq!(answer, HostAnswer::Failed("no answer within 50 ms".to_owned()));
        }
        // No more than so many were asked for, since those keep their turns.
        assert_eq!(*played.asked.lock().expect("asked"), LOOKUPS_MAX);
        *played.is_held.lock().expect("held") = false;
        played.freed.notify_all();
        drop(questions);
        naming.await.expect("it ends with who asks");
    }

    #[test]
    fn the_system_knows_the_loopback_network() {
        let loopback = "127.0.0.1".parse().expect("address");
        let name = SystemResolver.name_of(loopback).expect("an answer").expect("a name");
        let addresses = SystemResolver.addresses_of(&name).expect("an answer");
        assert!(addresses.contains(&loopback), "{name}: {addresses:?}");
    }
}
