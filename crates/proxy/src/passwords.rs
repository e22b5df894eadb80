//! Password work that takes milliseconds, on a thread of its own: no worker waits for it.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use trunkline_crypto::PrivateKey;
use trunkline_protocol::auth::{self, parsec::Derivation};
use trunkline_topology::Secret;
use trunkline_worker::{ClientId, ConnId};

use crate::mailbox::{Postbox, WorkerMail};

/// What there is to compute.
pub(crate) enum Job {
    /// Decrypt a client's password.
    Decrypt(ClientId, Vec<u8>),
    /// Check a clear password against a hash of many rounds.
    VerifyHash(ClientId, Secret<Vec<u8>>, Secret<Vec<u8>>),
    /// Derive the seed of a password's key.
    Derive(ConnId, Secret<Vec<u8>>, Derivation),
    /// Encrypt a password with a server's key.
    Encrypt(ConnId, Vec<u8>, Secret<Vec<u8>>),
}

/// Logins that may wait to be computed; beyond that they fail at once.
const JOBS_MAX: usize = 4_096;

/// Sends work to the thread.
#[derive(Clone)]
pub(crate) struct PasswordThread(SyncSender<(Job, Postbox)>);

impl PasswordThread {
    /// Starts the thread. It ends when the last sender has gone.
    pub(crate) fn start(key: Arc<PrivateKey>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(JOBS_MAX);
        thread::Builder::new().name("passwords".into()).spawn(move || run(&key, &receiver))?;
        Ok(Self(sender))
    }

    /// Has a job done; the answer comes by mail.
    pub(crate) fn send(&self, job: Job, answer: Postbox) {
        if let Err(TrySendError::Full((job, answer)) | TrySendError::Disconnected((job, answer))) =
            self.0.try_send((job, answer))
        {
            answer.send(failed(&job));
        }
    }
}

fn failed(job: &Job) -> WorkerMail {
    match job {
        Job::Decrypt(client, _) => WorkerMail::Decrypted(*client, None),
        Job::VerifyHash(client, ..) => WorkerMail::Verified(*client, false),
        Job::Encrypt(conn, ..) => WorkerMail::Encrypted(*conn, None),
        Job::Derive(conn, ..) => WorkerMail::Derived(*conn, None),
    }
}

fn run(key: &PrivateKey, jobs: &Receiver<(Job, Postbox)>) {
    while let Ok((job, answer)) = jobs.recv() {
        let mail = match job {
            Job::Decrypt(client, cipher) => {
                WorkerMail::Decrypted(client, key.decrypt_oaep_sha1(&cipher))
            }
            Job::VerifyHash(client, clear, hash) => {
                WorkerMail::Verified(client, auth::is_stored(clear.expose(), hash.expose()))
            }
            Job::Derive(conn, password, derivation) => {
                let seed = Secret::new(derivation.seed(password.expose()));
                WorkerMail::Derived(conn, Some(seed))
            }
            Job::Encrypt(conn, pem, plain) => {
                let cipher = trunkline_crypto::encrypt_oaep_sha1(&pem, plain.expose());
                WorkerMail::Encrypted(conn, cipher.ok())
            }
        };
        answer.send(mail);
    }
}
