//! Reads in a thread of its own for a caller that cannot wait: a process can keep a reader of its memory waiting for any time.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use crate::process::RaisedPriority;

/// How long a caller waits that samples.
const PATIENCE: Duration = Duration::from_millis(5);

/// Answers questions in a thread, which starts with the first ones.
pub(super) struct PatientReader<Q, A> {
    name: &'static str,
    read: Arc<dyn Fn(Q) -> A + Send + Sync>,
    started: Option<RunningReader<Q, A>>,
}

struct RunningReader<Q, A> {
    questions: Sender<Vec<Q>>,
    answers: Receiver<Vec<A>>,
    is_late: bool,
}

impl<Q: Send + 'static, A: Send + 'static> PatientReader<Q, A> {
    /// Prepares a thread with this name that reads the answer to each question.
    pub(super) fn new(name: &'static str, read: impl Fn(Q) -> A + Send + Sync + 'static) -> Self {
        Self { name, read: Arc::new(read), started: None }
    }

    /// The answers in the order of the questions; `None` if they take too long, and until those are there.
    pub(super) fn answers(&mut self, questions: Vec<Q>) -> Option<Vec<A>> {
        self.answers_within(PATIENCE, questions)
    }

    /// The same for a caller that can wait for so long.
    pub(super) fn answers_within(&mut self, patience: Duration, questions: Vec<Q>) -> Option<Vec<A>> {
        if self.started.is_none() {
            self.started = start(self.name, Arc::clone(&self.read)).ok();
        }
        let RunningReader { questions: next, answers, is_late } = self.started.as_mut()?;
        if *is_late && matches!(answers.try_recv(), Err(TryRecvError::Empty)) {
            return None;
        }
        next.send(questions).ok()?;
        let answers = answers.recv_timeout(patience);
        *is_late = matches!(answers, Err(RecvTimeoutError::Timeout));
        answers.ok()
    }
}

fn start<Q: Send + 'static, A: Send + 'static>(
    name: &str,
    read: Arc<dyn Fn(Q) -> A + Send + Sync>,
) -> io::Result<RunningReader<Q, A>> {
    let (questions, next) = channel::<Vec<Q>>();
    let (answer, answers) = channel();
    let serve = move || {
        // In its turn on a full CPU, each answer would be late. A caller asks for some tens of short ones.
        let _raised = RaisedPriority::run_first();
        while let Ok(questions) = next.recv() {
            // Nobody waits after the last window.
            let _ = answer.send(questions.into_iter().map(&*read).collect());
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(serve)?;
    Ok(RunningReader { questions, answers, is_late: false })
}
