//! A headless Chromium, driven through its remote debugging protocol over a pipe.

use crate::support::{Missing, skipped};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The first one is the same without what no page sees, and takes half as much CPU time.
const PROGRAMS: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// No window, no access to anything but the page, no state that remains.
const OPTIONS: [&str; 8] = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
];

/// How long an answer may take, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Browsers that no test uses at the moment: a start takes two seconds of CPU time.
static IDLE: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// The processes of a browser. They end when nothing can write to `input` any more.
struct Process {
    input: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
}

impl Process {
    /// `None` if no browser is installed.
    fn start() -> Option<Self> {
        let has_version = |program: &&&str| Command::new(program).arg("--version").output().is_ok();
        let Some(program) = PROGRAMS.iter().find(has_version) else {
            skipped(Missing::Tool("Chromium"));
            return None;
        };
        // The browser reads commands from descriptor 3, and writes to descriptor 4.
        let script = "profile=$(mktemp -d); \"$0\" \"$@\" --user-data-dir=\"$profile\" 3<&0 4>&1 </dev/null >/dev/null; \
                      rm -rf \"$profile\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, program]).args(OPTIONS);
        if nix::unistd::geteuid().is_root() {
            shell.arg("--no-sandbox");
        }
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        let (send, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                if send.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
            }
            let _ = shell.wait();
        });
        Some(Self { input, messages, last_id: 0 })
    }
}

/// A page, with a state of its own.
pub(crate) struct Browser {
    /// Until the page is closed.
    process: Option<Process>,
    events: VecDeque<Value>,
    context: Value,
    session: Option<String>,
}

impl Browser {
    /// A browser with an empty page; `None` if no browser is installed.
    pub(crate) fn start() -> Option<Self> {
        let idle = IDLE.lock().unwrap().pop();
        let process = Some(idle.or_else(Process::start)?);
        let mut browser = Self { process, events: VecDeque::new(), context: Value::Null, session: None };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        self.context = self.call("Target.createBrowserContext", &json!({}))["browserContextId"].take();
        let target = json!({"url": "about:blank", "browserContextId": self.context});
        let target = self.call("Target.createTarget", &target);
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", &target);
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.resize(1280, 900);
    }

    /// Sends a command and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let process = self.process.as_mut().unwrap();
        process.last_id += 1;
        let mut command = json!({"id": process.last_id, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        process.input.write_all(command.to_string().as_bytes()).unwrap();
        process.input.write_all(&[0]).unwrap();
        loop {
            let message = process.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == process.last_id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Opens an address and waits until the page is loaded.
    pub(crate) fn open(&mut self, address: &str) {
        // A new fragment alone would not load the page again.
        for address in ["about:blank", address] {
            self.events.clear();
            self.call("Page.navigate", &json!({"url": address}));
            self.wait_for("Page.loadEventFired");
        }
    }

    fn wait_for(&mut self, method: &str) {
        while !self.events.iter().any(|event| event["method"] == method) {
            let process = self.process.as_ref().unwrap();
            let event = process.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            self.events.push_back(event);
        }
    }

    /// The value of an expression, after any promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true: addresses change after the event that changes them.
    pub(crate) fn wait_until(&mut self, condition: &str) {
        let wait = format!(
            "new Promise((done) => {{ const look = () => {condition} ? setTimeout(done) : setTimeout(look, 10); look(); }})"
        );
        self.value(&wait);
    }

    /// The text of the first element that a selector matches.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({})?.textContent ?? null", json!(selector)));
        text.as_str().unwrap_or_else(|| panic!("no {selector}")).to_owned()
    }

    /// The texts of all elements that a selector matches.
    pub(crate) fn texts(&mut self, selector: &str) -> Vec<String> {
        let texts = format!("[...document.querySelectorAll({})].map((one) => one.textContent)", json!(selector));
        serde_json::from_value(self.value(&texts)).unwrap()
    }

    /// Clicks with the mouse in the middle of the first element that a selector matches.
    pub(crate) fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const one = document.querySelector({}); one.scrollIntoView({{block: 'center'}});
               const at = one.getBoundingClientRect();
               return {{x: at.x + at.width / 2, y: at.y + at.height / 2}}; }})()",
            json!(selector)
        ));
        for (kind, buttons) in [("mousePressed", 1), ("mouseReleased", 0)] {
            let event = json!({"type": kind, "x": place["x"], "y": place["y"], "button": "left",
                               "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
        // What is drawn in its place later is not pointed at.
        self.call("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": 0, "y": 0}));
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            one if one.chars().count() == 1 => one,
            _ => "",
        };
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyDown", "key": key, "code": key, "text": text}));
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key, "code": key}));
    }

    /// Types a text into the element with the focus.
    pub(crate) fn insert(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Chooses an option of a selection by its value.
    pub(crate) fn choose(&mut self, label: &str, value: &str) {
        self.value(&format!(
            "(() => {{ const label = [...document.querySelectorAll('label')].find((one) => one.firstChild.textContent === {});
               const select = label.querySelector('select');
               select.value = {};
               select.dispatchEvent(new Event('change')); }})()",
            json!(label),
            json!(value)
        ));
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What the page said on the console since it was opened: messages, exceptions, and the browser's complaints.
    pub(crate) fn console(&self) -> Vec<Value> {
        let says = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        self.events.iter().filter(|event| says.iter().any(|method| event["method"] == *method)).cloned().collect()
    }

    /// The addresses that the page requested since it was opened.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let address = |event: &Value| event["params"]["request"]["url"].as_str().unwrap().to_owned();
        requests.map(address).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // After a failure, nobody knows what the browser is at.
        if thread::panicking() {
            return;
        }
        self.session = None;
        let context = json!({"browserContextId": self.context});
        self.call("Target.disposeBrowserContext", &context);
        IDLE.lock().unwrap().extend(self.process.take());
    }
}
