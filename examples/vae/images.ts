/** The layout of images. */
export interface Layout {
  /** Pixels a side of each image. */
  readonly size: number;
  /** Images a row. */
  readonly columns: number;
}

/** Pixels of the picture for a pixel of an image, and between images. */
const SCALE = 5, GAP = 6;
/** Shades are rounded to these: a path for each, which keeps the file small. */
const SHADES = 12;

/**
 * Draws grey images side by side as an SVG, white on black.
 *
 * @param pixels Of all images, one after the other, row by row, from 0 (black) to 1.
 */
export function drawImages(pixels: Float32Array, { size, columns }: Layout): string {
  const count = pixels.length / (size * size), rows = Math.ceil(count / columns);
  const step = size * SCALE + GAP, width = columns * step + GAP, height = rows * step + GAP;
  const shades = Array.from({ length: SHADES + 1 }, (): string[] => []);
  for (let k = 0; k < pixels.length; k++) {
    const image = Math.floor(k / (size * size)),
      [column, row] = [k % size, Math.floor(k / size) % size];
    const x = GAP + (image % columns) * step + column * SCALE;
    const y = GAP + Math.floor(image / columns) * step + row * SCALE;
    const shade = Math.round(Math.min(Math.max(pixels[k]!, 0), 1) * SHADES);
    shades[shade]!.push(`M${x} ${y}h${SCALE}v${SCALE}h-${SCALE}z`);
  }
  const paths = shades.flatMap((squares, shade) => {
    const grey = Math.round(255 * shade / SHADES);
    return squares.length && shade > 0
      ? [`<path fill="rgb(${grey},${grey},${grey})" d="${squares.join("")}"/>`]
      : [];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}" shape-rendering="crispEdges">\n` +
    `<rect width="${width}" height="${height}" fill="#111"/>\n${paths.join("\n")}\n</svg>\n`;
}
