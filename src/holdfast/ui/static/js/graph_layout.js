// Where the boxes and wires of a graph are: in layers, from left to right, or from top to bottom where there is little room.
const WIDTH = 250;
const MARGIN = 26;
const ALONG = { wide: 116, narrow: 64 };
const ACROSS = 28;
const LINES_MAX = 8;
const SWEEPS = 8;

// `told` has the steps, and `sources` is how many sources there are, of which numbers are shown.
export function arrange(graph, vertical, told, sources) {
  const boxes = new Map(graph.nodes.map((node) => [node.id, boxOf(node, told.has(node.step) || (node.source != null && node.source <= sources))]));
  const edges = graph.edges.filter((edge) => boxes.has(edge.origin) && boxes.has(edge.target));
  const layers = layered(boxes, edges);
  const threads = edges.map((edge) => thread(edge, boxes, layers));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) sortLayers(layers, sweep % 2 === 0);
  place(layers, vertical);
  const size = extent([...boxes.values()]);
  const counts = new Map();
  for (const edge of graph.edges) counts.set(edge.origin, (counts.get(edge.origin) || 0) + 1);
  const wires = threads.map((path) => wireOf(path, vertical, counts));
  const room = [...boxes.values()];
  return { boxes: room, wires, frames: framesOf(room), width: size.x + MARGIN, height: size.y + MARGIN };
}

function boxOf(node, isTold) {
  const cut = node.lines.length > LINES_MAX;
  const lines = cut ? [...node.lines.slice(0, LINES_MAX - 1), { label: "", text: `… and ${node.lines.length - LINES_MAX + 1} more` }] : node.lines;
  const extra = !isTold ? 4 : node.kind === "step" ? 44 : node.kind === "source" ? 20 : 4;
  return { node, lines, width: WIDTH, height: 36 + lines.length * 17 + extra, x: 0, y: 0, layer: 0, order: 0, before: [], after: [] };
}

// Each box in the layer after all that lead to it. Sinks stand together at the end.
function layered(boxes, edges) {
  for (let round = 0; round < boxes.size; round += 1) {
    let moved = false;
    for (const edge of edges) {
      const [from, to] = [boxes.get(edge.origin), boxes.get(edge.target)];
      if (to.layer <= from.layer && from !== to) { to.layer = Math.min(from.layer + 1, boxes.size); moved = true; }
    }
    if (!moved) break;
  }
  const deepest = Math.max(...[...boxes.values()].map((box) => box.layer));
  const layers = Array.from({ length: deepest + 2 }, () => []);
  for (const box of boxes.values()) {
    if (box.node.kind === "sink") box.layer = Math.max(box.layer, deepest);
    layers[box.layer].push(box);
  }
  return layers;
}

// A wire that passes a layer has a narrow place of its own in it, so that it crosses no box.
function thread(edge, boxes, layers) {
  const [from, to] = [boxes.get(edge.origin), boxes.get(edge.target)];
  const path = [from];
  for (let number = from.layer + 1; number < to.layer; number += 1) {
    const passing = { node: null, width: 14, height: 14, x: 0, y: 0, layer: number, order: layers[number].length, before: [], after: [] };
    layers[number].push(passing);
    path.push(passing);
  }
  path.push(to);
  for (let at = 1; at < path.length; at += 1) { path[at - 1].after.push(path[at]); path[at].before.push(path[at - 1]); }
  return { edge, path };
}

function sortLayers(layers, forward) {
  for (const layer of layers) layer.forEach((box, number) => { box.order = number - (layer.length - 1) / 2; });
  for (const layer of forward ? layers : [...layers].reverse()) {
    const wish = (box) => { const near = forward ? box.before : box.after; return near.length ? near.reduce((sum, each) => sum + each.order, 0) / near.length : box.order; };
    const wishes = new Map(layer.map((box) => [box, wish(box)]));
    layer.sort((a, b) => wishes.get(a) - wishes.get(b) || operatorOf(a) - operatorOf(b));
    layer.forEach((box, number) => { box.order = number - (layer.length - 1) / 2; });
  }
}

const operatorOf = (box) => (box.node && box.node.operator != null ? box.node.operator : -1);

function place(layers, vertical) {
  const across = (box) => (vertical ? box.width : box.height);
  const breadth = (layer) => layer.reduce((sum, box) => sum + across(box), 0) + ACROSS * Math.max(layer.length - 1, 0);
  const widest = Math.max(...layers.map(breadth));
  let along = MARGIN;
  for (const layer of layers.filter((each) => each.length)) {
    let at = MARGIN + (widest - breadth(layer)) / 2;
    const depth = Math.max(...layer.map((box) => (vertical ? box.height : box.width)));
    for (const box of layer) {
      if (vertical) { box.x = at; box.y = along; } else { box.x = along; box.y = at; }
      box.depth = depth;
      at += across(box) + ACROSS;
    }
    along += depth + (vertical ? ALONG.narrow : ALONG.wide);
  }
}

function extent(boxes) {
  return { x: Math.max(...boxes.map((box) => box.x + box.width)), y: Math.max(...boxes.map((box) => box.y + box.height)) };
}

function wireOf({ edge, path }, vertical, counts) {
  const parts = [];
  let label = null;
  for (let at = 1; at < path.length; at += 1) {
    const [from, to] = [path[at - 1], path[at]];
    const start = vertical ? { x: from.x + from.width / 2, y: from.y + (from.node ? from.height : 0) } : { x: from.x + (from.node ? from.width : 0), y: from.y + from.height / 2 };
    const end = vertical ? { x: to.x + to.width / 2, y: to.y } : { x: to.x, y: to.y + to.height / 2 };
    const half = vertical ? (start.y + end.y) / 2 : (start.x + end.x) / 2;
    parts.push(vertical ? `M${start.x} ${start.y}C${start.x} ${half} ${end.x} ${half} ${end.x} ${end.y}` : `M${start.x} ${start.y}C${half} ${start.y} ${half} ${end.y} ${end.x} ${end.y}`);
    if (!to.node) parts.push(vertical ? `L${end.x} ${to.y + to.depth}` : `L${to.x + to.depth} ${end.y}`);
    if (!to.node) { if (vertical) to.y += to.depth; else to.x += to.depth; }
    label = label || { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 };
  }
  return { edge, from: path[0].node, path: parts.join(""), label, only: counts.get(edge.origin) === 1 };
}

// Steps that share an operator, if they stand together.
function framesOf(boxes) {
  const groups = new Map();
  for (const box of boxes) {
    if (box.node.operator == null) continue;
    if (!groups.has(box.node.operator)) groups.set(box.node.operator, []);
    groups.get(box.node.operator).push(box);
  }
  return [...groups.values()].filter((group) => group.length > 1).map((group) => {
    const [left, top] = [Math.min(...group.map((box) => box.x)) - 11, Math.min(...group.map((box) => box.y)) - 11];
    const size = extent(group);
    return { x: left, y: top, width: size.x + 11 - left, height: size.y + 11 - top };
  });
}
