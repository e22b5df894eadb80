//! Long texts are read here, on a thread beside each worker: no client of the worker's waits for
//! somebody else's.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Sender, channel},
    thread,
};

use trunkline_worker::{Student, Study};

use crate::mailbox::{Postbox, WorkerMail};

/// Sends texts to a worker's thread. As many wait as the worker has clients, each with one.
#[derive(Clone)]
pub(crate) struct StudentThread(Sender<Box<Study>>);

impl StudentThread {
    /// Starts the thread of worker `index`, whose answers go to `answers`. It ends when the worker
    /// has gone.
    pub(crate) fn start(index: usize, answers: Postbox) -> std::io::Result<Self> {
        let (sender, receiver) = channel::<Box<Study>>();
        thread::Builder::new().name(format!("texts-{index}")).spawn(move || {
            let mut student = Student::default();
            while let Ok(study) = receiver.recv() {
                let client = study.client();
                let studied = catch_unwind(AssertUnwindSafe(|| student.study(*study)));
                match studied {
                    Ok(studied) => answers.send(WorkerMail::Studied(Box::new(studied))),
                    Err(_) => {
                        student = Student::default();
                        answers.send(WorkerMail::StudyFailed(client))
                    }
                };
            }
        })?;
        Ok(Self(sender))
    }

    /// Has a text read; the answer comes by mail.
    pub(crate) fn study(&self, study: Box<Study>) {
        // Without the thread, the process is at its end.
        drop(self.0.send(study));
    }
}
