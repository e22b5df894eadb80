//! Statements that rules have rewritten, when they were prepared or since.

use std::{rc::Rc, sync::Arc};

use trunkline_sql::analysis::Effect;

use crate::{
    clients::client::Client,
    commands::prepared::ends_others,
    prepared::{Came, Contents, Entry, EntryKey},
    rooms::Exchange,
    routing::rewrite::Rewritten,
    statement::analysis::Known,
};

/// What an execution is answered with that can't be rewritten any more.
const UNCHANGED: &str =
    "a rule that protects could not rewrite this statement, which was prepared before";
/// What an execution is answered with that can't be rewritten, but would be if its statement were
/// prepared once more.
const READ_OTHERWISE: &str = "a rule that protects could not rewrite this statement, which was \
    prepared before servers were known to read it otherwise: prepare it again";

impl Exchange {
    /// The text that came to be prepared, where rules have rewritten it, with what is known of it
    /// by the settings of now.
    #[inline]
    pub(super) fn came_now(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        entry: &Entry,
    ) -> Option<Rc<Came>> {
        let stmt = client.session.prepared.get_mut(stmt_id)?;
        let came = stmt.came.as_mut()?;
        if came.known.edition != self.statements.analyses.edition() {
            let (text, known) =
                (came.text.clone(), self.statements.analyses.know(&came.text, &entry.modes));
            *came = Rc::new(Came { text, known });
        }
        Some(Rc::clone(came))
    }

    /// A rule that protects has been loaded since a statement was prepared: it is run by another
    /// text from now on.
    ///
    /// # Errors
    /// When it can't be, with the client's answer: the new text is a `KILL` or loads a file, or
    /// servers may read it otherwise by now.
    #[cold]
    pub(super) fn prepare_anew(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        entry: &Rc<Entry>,
        rewritten: Rewritten,
    ) -> Result<(Rc<Entry>, Rc<Known>), Arc<str>> {
        let Rewritten { text, known, .. } = rewritten;
        let loads = |effect: &Effect| matches!(effect, Effect::LoadData { .. });
        let is_other = ends_others(&known) || known.analysis.effects.iter().any(loads);
        if is_other {
            return Err(UNCHANGED.into());
        }
        if !self.core.reads_as_prepared(client, stmt_id, entry) {
            return Err(READ_OTHERWISE.into());
        }
        let session = &mut *client.session;
        // The new text may name any view.
        let contents = Contents::ALL;
        let reading = entry.reading_with(contents, &session.settings.state);
        let reading = self.core.servers.states.intern(reading);
        let account = session.login.account;
        let key = EntryKey { account, reading, contents, text };
        let read = (Rc::clone(&known), entry.modes);
        let anew = self.statements.share_entry(key, read, entry.prepared(stmt_id));
        let stmt = session.prepared.get(stmt_id).ok_or(UNCHANGED)?;
        let came = stmt.came.clone().unwrap_or_else(|| {
            Rc::new(Came { text: entry.text.clone(), known: Rc::clone(&entry.known) })
        });
        session.prepared.replace(stmt_id, Rc::clone(&anew), came);
        Ok((anew, known))
    }
}
