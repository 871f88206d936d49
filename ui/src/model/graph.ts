/** The stages of a job as a graph, laid out. */

import { Graph, layout } from "@dagrejs/dagre";
import type { Stage } from "../types";

export interface Placed {
  stage: Stage;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Edge {
  from: string;
  to: string;
  points: { x: number; y: number }[];
}

export interface Drawing {
  nodes: Placed[];
  edges: Edge[];
  width: number;
  height: number;
}

export const WIDTH = 248;
const OPERATORS = 6; // of a stage that are listed

/** The height of a stage's box: head, figures, tasks, operators. Must fit the styles of `.stage`. */
export function height(stage: Stage): number {
  const tasks = Math.ceil(Math.min(stage.tasks?.length ?? 0, 48) / 16);
  const operators = Math.min(stage.operators?.length ?? 0, OPERATORS);
  return 66 + (tasks > 0 ? 10 + tasks * 14 : 0) + (operators > 0 ? 8 + operators * 19 : 0);
}

export function shown(stage: Stage): NonNullable<Stage["operators"]> {
  return (stage.operators ?? []).slice(0, OPERATORS);
}

/** @param down from top to bottom, for narrow screens */
export function draw(stages: Stage[], down: boolean): Drawing {
  const graph = new Graph();
  graph.setGraph({ rankdir: down ? "TB" : "LR", nodesep: 20, ranksep: down ? 36 : 56, marginx: 4, marginy: 4 });
  graph.setDefaultEdgeLabel(() => ({}));
  const known = new Set(stages.map((s) => s.uid));
  for (const stage of stages) graph.setNode(stage.uid, { width: WIDTH, height: height(stage) });
  for (const stage of stages) {
    for (const upstream of stage.upstream ?? []) if (known.has(upstream)) graph.setEdge(upstream, stage.uid);
  }
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    nodes: stages.map((stage) => {
      const at = graph.node(stage.uid) as { x: number; y: number; width: number; height: number };
      return { stage, x: at.x - at.width / 2, y: at.y - at.height / 2, width: at.width, height: at.height };
    }),
    edges: graph.edges().map((edge) => ({ from: edge.v, to: edge.w, points: (graph.edge(edge) as { points: { x: number; y: number }[] }).points })),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

/** A smooth line through the points of an edge. */
export function path(points: { x: number; y: number }[]): string {
  const [first, ...others] = points;
  if (!first) return "";
  const text = [`M${first.x} ${first.y}`];
  for (let i = 0; i < others.length; i++) {
    const at = others[i]!;
    const next = others[i + 1];
    text.push(next && i < others.length - 1 ? `Q${at.x} ${at.y} ${(at.x + next.x) / 2} ${(at.y + next.y) / 2}` : `L${at.x} ${at.y}`);
  }
  return text.join(" ");
}
