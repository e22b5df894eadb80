//! Lists of who may connect: by address, and by the name of the host.

use std::{fmt, net::IpAddr, str::FromStr};

use crate::{HostName, HostPattern, Origins, host::is_like_an_address};

/// Where clients may come from: what [`Origins`] has, and names of hosts with `%` for any text and
/// `_` for one character.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowList {
    origins: Origins,
    hosts: Vec<HostPattern>,
}

impl AllowList {
    /// Whether nothing is on the list.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.hosts.is_empty()
    }

    /// Whether names of hosts are on the list.
    pub fn names_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether a client is on the list that comes from `addr` (`None` is a Unix socket), whose host
    /// has this name.
    pub fn includes(&self, addr: Option<IpAddr>, name: &HostName) -> bool {
        self.origins.includes(addr)
            || addr.is_some() && self.hosts.iter().any(|host| host.includes(addr, name.text()))
    }

    /// Whether a list of who may come lets a client in: an empty one lets everybody in.
    pub fn allows(&self, addr: Option<IpAddr>, name: &HostName) -> bool {
        self.is_empty() || self.includes(addr, name)
    }

    /// Adds an entry; the error says what is wrong with it.
    pub fn add(&mut self, entry: &str) -> Result<(), String> {
        match self.origins.add(entry) {
            Ok(()) => Ok(()),
            Err(_) if is_host(entry) => {
                self.hosts.push(HostPattern::new(entry));
                Ok(())
            }
            Err(_) => Err(format!("`{entry}` is not a network, and not the name of a host")),
        }
    }
}

/// Whether a text can be the name of a host, or a pattern of names. One without a letter is no
/// name: it is a network with a mistake in it.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._%".contains(&byte);
    text.bytes().all(fits)
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !is_like_an_address(text)
}

impl FromStr for AllowList {
    type Err = String;

    /// Entries with commas between them; an empty text is an empty list.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut list = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            list.add(entry)?;
        }
        Ok(list)
    }
}

impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origins)?;
        let mut between = if self.origins.is_empty() { "" } else { "," };
        for host in &self.hosts {
            write!(f, "{between}{}", host.text())?;
            between = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> AllowList {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_and_names_are_on_one_list() {
        let list = list("10.0.0.0/8, app-%.example.com,Web.example.com");
        let addr = |text: &str| Some(text.parse().expect(text));
        let named = |name: &str| HostName::Named(name.into());
        assert!(list.includes(addr("10.1.2.3"), &HostName::Unasked));
        assert!(list.includes(addr("192.0.2.1"), &named("app-1.example.com")));
        assert!(list.includes(addr("192.0.2.1"), &named("web.example.com")));
        assert!(!list.includes(addr("192.0.2.1"), &named("web.example.com.evil.org")));
        assert!(!list.includes(addr("192.0.2.1"), &HostName::Nameless));
        assert!(!list.includes(None, &HostName::Unasked));
        assert!(list.names_hosts() && !list.is_empty());
        assert_eq!(list.to_string(), "10.0.0.0/8,app-%.example.com,Web.example.com");
        assert_eq!(list.to_string().parse(), Ok(list));
    }

    #[test]
    fn unix_sockets_are_no_host() {
        // A pattern of names that is like the word for them does not let them in.
        assert!(!list("local%").includes(None, &HostName::Unasked));
        assert!(list("localhost").includes(None, &HostName::Unasked));
        assert!(!list("localhost").names_hosts());
    }

    #[test]
    fn an_empty_list_lets_everybody_in() {
        let none = AllowList::default();
        assert!(none.allows(None, &HostName::Unasked) && !none.includes(None, &HostName::Unasked));
        assert!(!list("app").allows("10.0.0.1".parse().ok(), &HostName::Nameless));
    }

    #[test]
    fn mistakes_are_no_names() {
        for text in
            ["10.0.0.1/8", "10.0.0", "10.0.0.o", "10.0.%", "%", "-", "a b", "a/8", "::1g", "fd00:%"]
        {
            assert!(text.parse::<AllowList>().is_err(), "{text}");
        }
    }
}
