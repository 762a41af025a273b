// The data of the page, as src/report/html writes it, and the same as groups with values.

/** The text of a cell, and the number that it stands for: `null` if it is a word, or unknown. */
export interface Cell {
  text: string;
  number: number | null;
}

export const UNKNOWN: Cell = { text: "-", number: null };

/** The steps in which numbers of a unit are written, with their names, and whether small ones have a decimal. */
export interface Scale {
  steps: [number, string][];
  decimal: boolean;
}

/** A value with its text; `null` where it is unknown. */
type Run = [number | null, string];

/** The values of each run by side. */
export interface Dots {
  /** What the values are of. */
  name: string;
  unit: string;
  runs: Run[][];
  /** The value from which on a gate fails. */
  bound?: Run;
}

/** What threads did or waited for, and who ran meanwhile, as in the JSON of reports. */
export interface Reason {
  class: string;
  entry: string | null;
  by: string | null;
  /** Functions of the program, the innermost first, of the most frequent stack. */
  stack: string[];
}

interface GroupData {
  path: number | null;
  label?: string;
  /** Of an overview: a cell, or `null` for exited work of the group above. */
  threads?: number | null;
  only?: "new" | "gone" | null;
  verdict?: string;
  dots?: Dots | null;
  why?: string[];
  idle?: boolean;
}

interface ValueData {
  name: string;
  unit: string;
  doc?: string;
  reason?: Reason;
}

export interface SectionData {
  section: string;
  doc?: string;
  notes?: string[];
  groups: GroupData[];
  values: ValueData[];
  /** The places of group and value, and the cells: of each side, of two sides the difference, of runs the verdict. */
  rows: [number, number, ...number[]][];
}

/** A column over time: a list of values for each of the groups, which are indices of paths. */
export interface TrendColumn {
  name: string;
  unit: string;
  groups: number[];
  values: (number | null)[][];
}

/** A reason over time, of the group with this path. */
export interface TrendReason {
  name: string;
  reason: Reason;
  unit: string;
  group: number;
  values: (number | null)[];
}

/** The parts of a series. */
export interface Trends {
  start: string;
  started_at_unix_ns: number[];
  duration_ns: number[];
  columns: TrendColumn[];
  /** Of the groups that were not asleep for the longest time, and how many others have reasons. */
  reasons: TrendReason[];
  groups_without_reasons: number;
}

/** The shares of the host's CPU time in percent. */
export interface CpuBar {
  explained: number;
  busy: number;
  text: string;
  saturated: boolean;
}

export interface Document {
  title: string;
  /** What the report says, in a sentence. */
  answer: string;
  file: string;
  lines: { label: string; text: string; warning?: boolean; cpu?: CpuBar; dots?: Dots }[];
  /** Sources that no thread has, and those that some lack. */
  missing: string[];
  partial: string[];
  gates: { headings: string[]; rows: string[][]; dots: (Dots | null)[] } | null;
  two: boolean;
  verdicts: boolean;
  group_by: string;
  capacity: number | null;
  scales: Record<string, Scale>;
  cells: [string, number | null][];
  paths: [number | null, string][];
  sections: SectionData[];
  tree: SectionData[] | null;
  trends: Trends | null;
}

/** One value of one group. */
export interface Row {
  group: Group;
  value: Value;
  /** A cell per side: baseline and candidate, or the only one. */
  cells: Cell[];
  delta: Cell | undefined;
  percent: Cell | undefined;
  /** The 95% interval of several runs. */
  interval: Cell | undefined;
  /** What several runs say, with 1 if that is clear. */
  verdict: Cell | undefined;
}

export interface Value {
  section: Section;
  name: string;
  unit: string;
  doc: string;
  reason: Reason | null;
  rows: Row[];
  row: Map<Group, Row>;
}

export interface Group {
  /** The path as one text, which differs from that of any other group. */
  key: string;
  path: string[];
  /** The name as it is shown, with marks. */
  name: string;
  /** The same after the names of the groups above it. */
  label: string;
  threads: Cell | undefined;
  /** Whether it is exited work of the group above. */
  exited: boolean;
  only: string | null;
  /** What several runs say of its largest change, or that change. */
  verdict: string;
  dots: Dots | null;
  /** Why its time passes, of groups that lead the overview. */
  why: string[];
  /** Whether it did nothing. */
  idle: boolean;
  /** The group above it, if the section has it. */
  parent: Group | null;
  children: Group[];
  section: Section;
}

export interface Section {
  name: string;
  doc: string;
  notes: string[];
  groups: Group[];
  rows: Row[];
  values: Map<string, Value>;
}

export class Report {
  readonly two: boolean;
  readonly sections: Map<string, Section>;
  readonly tree: Map<string, Section>;
  private readonly cells: Cell[];
  private readonly byName = new Map<number, Map<string, Group[]>>();

  constructor(readonly document: Document) {
    this.two = document.two;
    this.cells = document.cells.map(([text, number]) => ({ text, number }));
    const read = (list: SectionData[]) => new Map(list.map((data) => [data.section, this.section(data)]));
    this.sections = read(document.sections);
    this.tree = document.tree ? read(document.tree) : this.sections;
  }

  get overview(): Section | undefined {
    return this.sections.get("overview");
  }

  scale(unit: string): Scale {
    return this.document.scales[unit] ?? { steps: [[1, ""]], decimal: false };
  }

  pathOf(index: number | null): string[] {
    const path: string[] = [];
    for (let at = index; at !== null;) {
      const entry: [number | null, string] | undefined = this.document.paths[at];
      if (!entry) break;
      path.unshift(entry[1]);
      at = entry[0];
    }
    return path;
  }

  /** The groups of the tree that belong to a group of the overview, or to a part of it. */
  below(group: Group): Group[] {
    const depth = { command: 1, pcomm: 1, comm: 2, "comm-exact": 2, cgroup: 0 }[this.document.group_by];
    const isOfTree = group.section === this.tree.get("overview");
    if (isOfTree || depth === undefined || group.path.length > 1) {
      return group.children;
    }
    const same = this.treeByName(depth).get(group.path.at(-1) ?? "") ?? [];
    const only = same.length === 1 ? same[0] : undefined;
    return only ? only.children : same;
  }

  private treeByName(depth: number): Map<string, Group[]> {
    let byName = this.byName.get(depth);
    if (!byName) {
      byName = new Map();
      for (const group of this.tree.get("overview")?.groups ?? []) {
        const name = group.path[depth];
        if (group.path.length === depth + 1 && name !== undefined) {
          const top = this.document.group_by === "pcomm" ? this.processOf(name) : name;
          byName.set(top, [...(byName.get(top) ?? []), group]);
        }
      }
      this.byName.set(depth, byName);
    }
    return byName;
  }

  /** The name of the process, which the tree has with the script of an interpreter after it. */
  private processOf(name: string): string {
    const names = this.overview?.groups.map(({ path }) => path.at(-1) ?? "") ?? [];
    return names.includes(name) ? name : (names.find((process) => name.startsWith(`${process} `)) ?? name);
  }

  private section(data: SectionData): Section {
    const { section: name, doc = "", notes = [] } = data;
    const section: Section = { name, doc, notes, groups: [], rows: [], values: new Map() };
    section.groups = data.groups.map((group) => this.group(group, section));
    const byKey = new Map(section.groups.map((group) => [group.key, group]));
    for (const group of section.groups) {
      group.parent = group.path.length > 0 ? (byKey.get(keyOf(group.path.slice(0, -1))) ?? null) : null;
      group.parent?.children.push(group);
    }
    const values = data.values.map(({ name, unit, doc = "", reason = null }): Value => {
      return { section, name, unit, doc, reason, rows: [], row: new Map() };
    });
    for (const value of values) section.values.set(value.name, value);
    for (const [ofGroup, ofValue, ...places] of data.rows) {
      const [group, value] = [section.groups[ofGroup], values[ofValue]];
      if (!group || !value) continue;
      const cells = places.map((place) => this.cells[place] ?? UNKNOWN);
      const sides = cells.splice(0, this.two ? 2 : 1);
      const [delta, percent, interval, verdict] = cells;
      const row: Row = { group, value, cells: sides, delta, percent, interval, verdict };
      section.rows.push(row);
      value.rows.push(row);
      value.row.set(group, row);
    }
    return section;
  }

  private group(data: GroupData, section: Section): Group {
    const { threads = -1, label, only = null, verdict = "", dots = null, why = [], idle = false } = data;
    const path = this.pathOf(data.path);
    const name = label ?? path.at(-1) ?? "";
    return {
      key: keyOf(path),
      path,
      name,
      label: [...path.slice(0, -1), ...(name ? [name] : [])].join(" » "),
      threads: this.cells[threads ?? -1],
      exited: threads === null,
      only,
      verdict,
      dots,
      why,
      idle,
      parent: null,
      children: [],
      section,
    };
  }
}

/** A path as one text; names may contain any character. */
export const keyOf = (path: string[]): string => JSON.stringify(path);

/** The numbers of a row; a side without the group has done nothing there, so its number counts as 0 in charts. */
export function numbersOf(row: Row | undefined): number[] | null {
  if (!row?.cells.some(({ number }) => number !== null)) return null;
  return row.cells.map(({ number }) => number ?? 0);
}

/** The texts of both sides, or one text if they are equal. */
export const textOf = (row: Row | undefined): string => [...new Set(row?.cells.map(({ text }) => text))].join(" → ");

/** Whether several runs do not say that a value changed. */
export const isUnclear = ({ verdict }: Row): boolean => verdict?.number === 0;

/** Candidate minus baseline; the value of the only side in a report of one. */
export function changeOf(row: Row | undefined): number | null {
  if (row?.delta) return row.delta.number;
  const [first, second] = numbersOf(row) ?? [];
  if (first === undefined) return null;
  return second === undefined ? first : second - first;
}
