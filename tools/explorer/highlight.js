// The languages that the explorer shows, and no others.
import highlighter from "highlight.js/lib/core";
import c from "highlight.js/lib/languages/c";
import llvm from "highlight.js/lib/languages/llvm";
import python from "highlight.js/lib/languages/python";
import assembly from "highlight.js/lib/languages/x86asm";
import wgsl from "highlight.js/lib/languages/rust";

highlighter.registerLanguage("assembly", assembly);
highlighter.registerLanguage("c", c);
highlighter.registerLanguage("llvm", llvm);
highlighter.registerLanguage("python", python);
highlighter.registerLanguage("wgsl", wgsl); // which Rust's syntax is nearest to

// The text as HTML, escaped, with spans around what is coloured.
export const highlight = (text, language) => highlighter.highlight(text, { language }).value;
