// Compares texts by lines, for the explorer.
export { diffLines } from "diff";
