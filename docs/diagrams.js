// Draws the diagrams of the book, if the build put mermaid beside it. Without it, their text is shown.
(() => {
  const blocks = document.querySelectorAll("code.language-mermaid");
  if (!blocks.length) return;
  const script = document.createElement("script");
  script.src = `${typeof path_to_root === "string" ? path_to_root : ""}mermaid.min.js`;
  script.onload = () => {
    for (const block of blocks) {
      const drawing = document.createElement("pre");
      drawing.className = "mermaid";
      drawing.textContent = block.textContent;
      block.parentElement.replaceWith(drawing);
    }
    mermaid.initialize({ startOnLoad: false });
    mermaid.run();
  };
  document.head.append(script);
})();
