// The data of the page, as src/report/html/document.rs writes it, and the same as groups with values.

/** A value as in the JSON of reports. */
export type Cell =
  | number
  | string
  | { min: number | string; max: number | string }
  | { value: string; count: number; total: number }
  | { fewest: number; most: number; cpus: number[] | null };

/** A difference that is not that of two numbers. */
export type Delta =
  string | { min: number; max: number } | { from: Cell; to: Cell } | { fewest: number; most: number; changed: boolean };

/** What threads did or waited for, as in the JSON of reports. */
export interface Reason {
  class: string;
  entry: string | null;
  functions: string[];
  object: string | null;
  by: string | null;
}

interface ValueData {
  name: string;
  reason?: Reason | undefined;
  unit: string;
  doc?: string;
  tags?: string[];
  places?: number[];
  baseline: (Cell | null)[];
  candidate?: (Cell | null)[];
  delta?: (Delta | null)[];
  percent?: (number | null)[];
  interval?: ([number, number | null] | null)[];
  verdict?: (string | null)[];
  partial?: number[];
}

/** A value in each run, `null` where it is unknown. */
export interface Dots {
  unit: string;
  runs: (number | null)[][];
}

export interface SectionData {
  section: string;
  doc: string;
  notes: { code: string; message: string }[];
  cut: number;
  hidden: Record<string, number>;
  groups: number[];
  members: (number | null)[][];
  name_cut: number[];
  renamed: number[];
  exited_work: number[];
  turnover: [number, number, number][];
  verdicts?: string[];
  dots?: (Dots | null)[];
  values: ValueData[];
}

export interface SideFacts {
  file: string;
  hostname: string | null;
  kernel_release: string | null;
  arch: string | null;
  captured_at_unix_ns: number;
  threads: number;
  processes: number;
  engine: string | null;
  tool: string | null;
  runs?: { runs: number; excluded: number };
  window?: {
    duration_ns: number;
    started: number;
    exited: number;
    command?: { arguments?: string[] } | null;
    cpu?: { busy_ns: number; busy_most_ns?: number; explained_ns: number; cpus: number; partial?: boolean } | null;
    exit_records?: { source: string; received: number; lost: number } | null;
  };
}

export interface Finding {
  source: string;
  reason: string | null;
  fix: string | null;
}

/** A column over time: a list of values for each of the groups, which are indices of paths. */
export interface CourseColumn {
  name: string;
  unit: string;
  groups: number[];
  values: (number | null)[][];
}

/** A reason over time, of the group with this path. */
export interface CourseReason {
  name: string;
  reason: Reason;
  unit: string;
  group: number;
  values: (number | null)[];
}

/** The parts of a series. */
export interface Course {
  started_at_unix_ns: number[];
  duration_ns: number[];
  columns: CourseColumn[];
  /** Of the groups that were not asleep for the longest time, and how many others have reasons. */
  reasons: CourseReason[];
  groups_without_reasons: number;
}

export interface Document {
  facts: {
    baseline?: SideFacts;
    candidate?: SideFacts;
    snapshot?: SideFacts | null;
    differences?: { field: string; baseline: string | null; candidate: string | null }[] | null;
    warnings?: { code: string; message: string }[];
    host?: Record<string, string>;
    gaps?: Finding[];
    per?: string;
  };
  lines: { label: string; text: string; warning?: boolean }[];
  group_by: string;
  paths: [number | null, string][];
  sections: SectionData[];
  tree: SectionData[] | null;
  renamed: { baseline: string; candidate: string; similarity: number }[] | null;
  gates: { summary: string; headings: string[]; rows: string[][] } | null;
  verdicts: boolean;
  elapsed: Dots | null;
  course: Course | null;
}

/** A value per side: baseline and candidate, or the only one. */
export type Sides<T> = readonly T[];

/** One value of one group. */
export interface Row {
  group: Group;
  value: Value;
  cells: Sides<Cell | null>;
  delta: Delta | null;
  percent: number | null;
  /** The 95% interval of candidate over baseline; the upper end is `null` if it has no limit. */
  interval: [number, number | null] | null;
  /** What several runs say: a word, and why it is unclear. */
  verdict: string | null;
  partial: boolean;
}

export interface Value {
  section: Section;
  name: string;
  unit: string;
  doc: string;
  tags: string[];
  reason: Reason | null;
  rows: Row[];
  row: Map<Group, Row>;
}

export interface Group {
  /** The path as one text, which differs from that of any other group. */
  key: string;
  path: string[];
  name: string;
  members: Sides<number | null>;
  started: number;
  exited: number;
  cut: boolean;
  renamed: boolean;
  exitedWork: boolean;
  /** The verdict on its largest change, and the runs that it is about. */
  verdict: string | null;
  dots: Dots | null;
  /** The group above it, if the section has it. */
  parent: Group | null;
  children: Group[];
  section: Section;
}

export interface Section {
  name: string;
  doc: string;
  notes: string[];
  cut: number;
  hidden: Record<string, number>;
  groups: Group[];
  values: Map<string, Value>;
}

export class Report {
  readonly two: boolean;
  readonly sections: Map<string, Section>;
  readonly tree: Map<string, Section>;
  readonly groupBy: string;

  constructor(readonly document: Document) {
    this.two = document.renamed !== null;
    this.groupBy = document.group_by;
    const sections = (list: SectionData[]) =>
      new Map(list.map((data) => [data.section, readSection(data, document.paths, this.two)]));
    this.sections = sections(document.sections);
    this.tree = document.tree ? sections(document.tree) : this.sections;
  }

  pathOf(index: number): string[] {
    return pathOf(index, this.document.paths);
  }

  get overview(): Section | undefined {
    return this.sections.get("overview");
  }

  /** The captures, in order. */
  get captures(): SideFacts[] {
    const { baseline, candidate, snapshot } = this.document.facts;
    return [baseline, candidate, snapshot].filter((side) => side !== undefined && side !== null);
  }

  /** What all CPUs of the host can do, in the unit of run times: known of windows of equal hosts. */
  get capacity(): number | null {
    const cpus = new Set(this.captures.map(({ window }) => window?.cpu?.cpus));
    const [only] = cpus;
    return cpus.size === 1 && only && this.overview?.values.get("run")?.unit === "percent" ? only * 100 : null;
  }

  /** The groups of the tree that belong to a group of the overview, or to a part of it. */
  below(group: Group): Group[] {
    const depth = { command: 1, pcomm: 1, comm: 2, "comm-exact": 2, cgroup: 0 }[this.groupBy];
    const isOfTree = group.section === this.tree.get("overview");
    if (isOfTree || depth === undefined || group.path.length > 1) {
      return group.children;
    }
    const same = this.treeByName(depth).get(group.name) ?? [];
    const only = same.length === 1 ? same[0] : undefined;
    return only ? only.children : same;
  }

  private readonly byName = new Map<number, Map<string, Group[]>>();

  private treeByName(depth: number): Map<string, Group[]> {
    let known = this.byName.get(depth);
    if (!known) {
      known = new Map();
      for (const group of this.tree.get("overview")?.groups ?? []) {
        const name = group.path[depth];
        if (group.path.length === depth + 1 && name !== undefined) {
          const top = this.groupBy === "pcomm" ? this.processOf(name) : name;
          known.set(top, [...(known.get(top) ?? []), group]);
        }
      }
      this.byName.set(depth, known);
    }
    return known;
  }

  /** The name of the process, which the tree has with the script of an interpreter after it. */
  private processOf(name: string): string {
    const names = this.overview?.groups.map((group) => group.name) ?? [];
    return names.includes(name) ? name : (names.find((process) => name.startsWith(`${process} `)) ?? name);
  }
}

/** A path as one text; names may contain any character. */
export const keyOf = (path: string[]): string => JSON.stringify(path);

function readSection(data: SectionData, paths: Document["paths"], two: boolean): Section {
  const section: Section = {
    ...data,
    name: data.section,
    notes: data.notes.map((note) => note.message),
    groups: [],
    values: new Map(),
  };
  const marks = [data.name_cut, data.renamed, data.exited_work].map((places) => new Set(places));
  const turnover = new Map(data.turnover.map(([place, started, exited]) => [place, { started, exited }]));
  const byKey = new Map<string, Group>();
  section.groups = data.groups.map((index, place) => {
    const path = pathOf(index, paths);
    const { started, exited } = turnover.get(place) ?? { started: 0, exited: 0 };
    const group: Group = {
      key: keyOf(path),
      path,
      name: path.at(-1) ?? "",
      members: data.members[place] ?? [],
      started,
      exited,
      cut: marks[0]?.has(place) ?? false,
      renamed: marks[1]?.has(place) ?? false,
      exitedWork: marks[2]?.has(place) ?? false,
      verdict: data.verdicts?.[place] ?? null,
      dots: data.dots?.[place] ?? null,
      parent: null,
      children: [],
      section,
    };
    byKey.set(group.key, group);
    return group;
  });
  for (const group of section.groups) {
    group.parent = byKey.get(keyOf(group.path.slice(0, -1))) ?? null;
    group.parent?.children.push(group);
  }
  for (const value of data.values) {
    section.values.set(value.name, readValue(value, section, two));
  }
  return section;
}

function readValue(data: ValueData, section: Section, two: boolean): Value {
  const { name, unit, doc = "", tags = [], reason = null } = data;
  const value: Value = { section, name, unit, doc, tags, reason, rows: [], row: new Map() };
  const partial = new Set(data.partial);
  data.baseline.forEach((baseline, at) => {
    const group = section.groups[data.places?.[at] ?? at];
    if (!group) return;
    const cells = two ? [baseline, data.candidate?.[at] ?? null] : [baseline];
    const [delta, percent] = [data.delta?.[at] ?? null, data.percent?.[at] ?? null];
    const [interval, verdict] = [data.interval?.[at] ?? null, data.verdict?.[at] ?? null];
    const row: Row = { group, value, cells, delta, percent, interval, verdict, partial: partial.has(at) };
    value.rows.push(row);
    value.row.set(group, row);
  });
  return value;
}

function pathOf(index: number, paths: Document["paths"]): string[] {
  const path: string[] = [];
  for (let at: number | null = index; at !== null;) {
    const entry: [number | null, string] | undefined = paths[at];
    if (!entry) break;
    path.unshift(entry[1]);
    at = entry[0];
  }
  return path;
}

/** The number of a cell, if it is one. */
export function numberOf(cell: Cell | null | undefined): number | null {
  return typeof cell === "number" ? cell : null;
}

/** The numbers of a row; a side without the group has done nothing there, so its number counts as 0 in charts. */
export function numbersOf(row: Row | undefined): Sides<number> | null {
  if (!row?.cells.some((cell) => typeof cell === "number")) return null;
  return row.cells.map((cell) => numberOf(cell) ?? 0);
}

/** Whether several runs do not say that a value changed. */
export const isUnclear = ({ verdict }: Row): boolean => verdict !== null && /^(same|unclear)/.test(verdict);

/** Candidate minus baseline; the value of the only side in a report of one. */
export function changeOf(row: Row | undefined): number | null {
  const numbers = numbersOf(row);
  const [first, second] = numbers ?? [];
  if (first === undefined) return null;
  return second === undefined ? first : second - first;
}
