// The same values as the native tooltips, at once and beside the pointer; without this script those remain.
"use strict";
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
for (const place of document.querySelectorAll(".stop, .piece")) {
  const title = place.querySelector("title");
  if (!title) continue;
  const text = title.textContent;
  const show = (event) => {
    title.textContent = "";
    tip.textContent = text;
    tip.hidden = false;
    const left = event.clientX + 14, over = left + tip.offsetWidth > window.innerWidth;
    const x = Math.max(4, over ? event.clientX - tip.offsetWidth - 14 : left);
    const y = Math.max(4, Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 4));
    tip.style.left = `${x}px`;
    tip.style.top = `${y}px`;
  };
  place.addEventListener("pointermove", show);
  place.addEventListener("pointerdown", show);
  place.addEventListener("pointerleave", () => {
    title.textContent = text;
    tip.hidden = true;
  });
}
