// Rectangles whose areas are given, nearly squares (Bruls, Huizing, van Wijk: Squarified Treemaps).

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Something with a size, which becomes an area. */
interface Sized {
  size: number;
}

/** Divides a box among items, the largest first. What they lack of the whole stays empty. */
export function squarified<T extends Sized>(items: T[], box: Rectangle, whole: number): { item: T; at: Rectangle }[] {
  const placed: { item: T; at: Rectangle }[] = [];
  const scale = (box.width * box.height) / whole;
  let { x, y, width, height } = box;
  let rest = items;
  while (rest.length > 0 && width > 0 && height > 0) {
    const side = Math.min(width, height);
    const row = rest.slice(0, rowLength(rest, side, scale));
    const thickness = (total(row) * scale) / side;
    let along = 0;
    for (const item of row) {
      const length = (item.size * scale) / thickness;
      const at =
        width >= height
          ? { x, y: y + along, width: thickness, height: length }
          : { x: x + along, y, width: length, height: thickness };
      placed.push({ item, at });
      along += length;
    }
    if (width >= height) [x, width] = [x + thickness, width - thickness];
    else [y, height] = [y + thickness, height - thickness];
    rest = rest.slice(row.length);
  }
  return placed;
}

const total = (items: Sized[]): number => items.reduce((sum, { size }) => sum + size, 0);

/** How many items make the squarest row. */
function rowLength(items: Sized[], side: number, scale: number): number {
  let length = 1;
  while (
    length < items.length &&
    worst(items.slice(0, length + 1), side, scale) <= worst(items.slice(0, length), side, scale)
  ) {
    length += 1;
  }
  return length;
}

/** The worst ratio of sides in a row of items. */
function worst(row: Sized[], side: number, scale: number): number {
  const thickness = (total(row) * scale) / side;
  const ratio = ({ size }: Sized) => {
    const length = (size * scale) / thickness;
    return Math.max(length / thickness, thickness / length);
  };
  return Math.max(...row.map(ratio));
}
