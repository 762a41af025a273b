// The part of .ci/rehearse that runs workflows.

const { execFileSync, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const glob = require("@actions/glob");
const yaml = require("yaml");

const HERE = path.resolve("target/rehearsal");
const CHECKOUT = path.join(HERE, "checkout");

const workflow = (name) => yaml.parse(fs.readFileSync(path.join(CHECKOUT, ".github/workflows", name), "utf8"));

/** The files of an artifact, as actions/upload-artifact finds them (`findFilesToUpload`), and the directory that is their root. */
async function uploaded(pattern) {
  process.chdir(CHECKOUT);
  const globber = await glob.create(pattern, { implicitDescendants: true, omitBrokenSymbolicLinks: true, excludeHiddenFiles: true });
  const files = (await globber.glob()).filter((file) => !fs.statSync(file).isDirectory());
  const [root, ...others] = globber.getSearchPaths();
  if (others.length) throw new Error("several search paths: their least common ancestor is not rehearsed");
  return { files, root: files.length === 1 && files[0] === root ? path.dirname(root) : root };
}

async function runAction(action, inputs) {
  const artifacts = path.join(HERE, "artifacts");
  if (action === "actions/upload-artifact") {
    const { files, root } = await uploaded(inputs.path);
    if (!files.length) throw new Error(`no files: ${inputs.path}`);
    const to = (file) => path.join(artifacts, inputs.name, path.relative(root, file));
    files.forEach((file) => fs.cpSync(file, to(file)));
  } else if (action === "actions/download-artifact") {
    const to = path.join(CHECKOUT, inputs.path);
    fs.readdirSync(artifacts).forEach((name) =>
      fs.cpSync(path.join(artifacts, name), inputs["merge-multiple"] ? to : path.join(to, name), { recursive: true }),
    );
  } else {
    console.log(`not rehearsed: ${action}`);
  }
}

/** Commands that a runner has: `gh` makes the page of the release, and downloads from it. Attestations are not rehearsed. */
function tools() {
  const directory = path.join(HERE, "bin");
  const page = path.join(HERE, "page");
  const commands = {
    sudo: 'exec "$@"',
    gh: `mkdir -p ${page}
case $1-$2 in
  release-create) for file in "$@"; do case $file in packages/*) cp "$file" ${page} ;; esac; done ;;
  release-download) while [ $# -gt 0 ]; do [ "$1" != --pattern ] || cp ${page}/$2 .; shift; done ;;
esac`,
  };
  fs.mkdirSync(directory, { recursive: true });
  for (const [name, script] of Object.entries(commands)) {
    fs.writeFileSync(path.join(directory, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  return directory;
}

async function runJob(name, job, matrix, skip) {
  const expanded = (text) => String(text).replace(/\$\{\{ *matrix\.(\w+) *\}\}/g, (_, key) => matrix[key]);
  const all = (map) => Object.fromEntries(Object.entries(map ?? {}).map(([key, value]) => [key, expanded(value)]));
  const version = execFileSync("sed", ["-n", 's/^version = "\\(.*\\)"/\\1/p', "Cargo.toml"], { cwd: CHECKOUT, encoding: "utf8" });
  const temporary = path.join(HERE, "runner");
  fs.mkdirSync(temporary, { recursive: true });
  const runner = {
    GITHUB_REF_NAME: `v${version.trim()}`,
    GITHUB_OUTPUT: path.join(temporary, "output"),
    RUNNER_TEMP: temporary,
    PATH: `${tools()}:${process.env.PATH}`,
  };
  for (const step of job.steps) {
    const title = step.name ?? step.run ?? step.uses;
    console.log(`== ${name}: ${title.trim()}`);
    if (step.uses) {
      await runAction(step.uses.split("@")[0], all(step.with));
    } else if (skip && new RegExp(skip).test(step.run)) {
      console.log("skipped");
    } else {
      const env = { ...process.env, ...runner, ...all(job.env), ...all(step.env) };
      const shell = ["--noprofile", "--norc", "-eo", "pipefail", "-c", expanded(step.run)];
      const { status } = spawnSync("bash", shell, { cwd: CHECKOUT, env, stdio: "inherit" });
      if (status !== 0) throw new Error(`${name}: ${title}: exit status ${status}`);
    }
  }
}

async function release(skip) {
  const { package: build } = workflow("package.yml").jobs;
  const { version, publish } = workflow("release.yml").jobs;
  const arch = process.arch === "arm64" ? "aarch64" : "x86_64";
  const matrix = build.strategy.matrix.include.find(({ target }) => target.startsWith(arch));
  await runJob("version", version, {}, skip);
  await runJob("package", build, matrix, skip);
  await runJob("publish", publish, {}, skip);
  const { steps } = yaml.parse(fs.readFileSync(path.join(CHECKOUT, "action.yml"), "utf8")).runs;
  const use = { name: "The installed ctprof runs", run: '"$(sed -n "s/^path=//p" "$GITHUB_OUTPUT")" --version' };
  await runJob("action", { steps: [steps.find(({ id }) => id === "install"), use] }, {}, skip);
  console.log(`== the page of the release\n${fs.readdirSync(path.join(HERE, "page")).join("\n")}`);
}

release(process.argv[2]).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
