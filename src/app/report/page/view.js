// What part of the picture is seen, and how large: by mouse, wheel, touch and keys.

const LARGEST = 4, SMALLEST = 0.02;
const seen = { x: 0, y: 0, scale: 1 };

function show() {
  view.setAttribute("transform", `translate(${seen.x.toFixed(2)} ${seen.y.toFixed(2)}) scale(${seen.scale.toFixed(4)})`);
  canvas.style.setProperty("--scale", seen.scale.toFixed(4));
  canvas.classList.toggle("far", seen.scale < 0.45);
  fitTitles();
}

const room = () => ({ width: canvas.clientWidth || 1, height: canvas.clientHeight || 1 });

// Everything, in the middle.
function fit() {
  const { width, height } = room();
  seen.scale = Math.min((width - 16) / root.width, (height - 16) / root.height, 1.25);
  seen.x = (width - root.width * seen.scale) / 2;
  seen.y = Math.max(8, (height - root.height * seen.scale) / 2);
  show();
}

// At first everything, or from the top what can be read: a small window shows a part.
function fitFirst() {
  fit();
  if (seen.scale >= 0.45) return;
  const { width } = room();
  seen.scale = Math.min(1, Math.max(0.45, (width - 16) / root.width));
  seen.x = root.width * seen.scale < width ? (width - root.width * seen.scale) / 2 : 8;
  seen.y = 8;
  show();
}

// A point of the window stays where it is.
function zoom(factor, x = room().width / 2, y = room().height / 2) {
  const scale = Math.min(LARGEST, Math.max(SMALLEST, seen.scale * factor));
  seen.x = x - ((x - seen.x) * scale) / seen.scale;
  seen.y = y - ((y - seen.y) * scale) / seen.scale;
  seen.scale = scale;
  show();
}

function pan(x, y) {
  seen.x += x;
  seen.y += y;
  show();
}

// Moves as little as brings a box into sight; one that is too small to read is brought near.
function reveal(node, near = false) {
  const { width, height } = room();
  if (near && seen.scale < 0.8) {
    seen.scale = 1;
    seen.x = width / 2 - node.X - node.width / 2;
    seen.y = height / 2 - node.Y - Math.min(node.height, height * 0.8) / 2;
  }
  const margin = 24;
  const [left, top] = [seen.x + node.X * seen.scale, seen.y + node.Y * seen.scale];
  const [right, bottom] = [left + node.width * seen.scale, top + node.height * seen.scale];
  if (right > width - margin) seen.x -= right - width + margin;
  if (bottom > height - margin) seen.y -= bottom - height + margin;
  if (left < margin || right - left > width) seen.x += margin - (seen.x + node.X * seen.scale);
  if (top < margin || bottom - top > height) seen.y += margin - (seen.y + node.Y * seen.scale);
  show();
}

// Pointers that are down now: one pans, two pinch.
const pointers = new Map();
let moved = 0;

const placeOf = (event) => {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
};

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  if (pointers.size === 0) moved = 0;
  pointers.set(event.pointerId, placeOf(event));
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const now = placeOf(event);
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  moved += Math.hypot(now.x - before.x, now.y - before.y);
  // What hardly moves is a click.
  if (moved > 4 && !canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
  if (other) {
    const distance = (point) => Math.hypot(point.x - other.x, point.y - other.y) || 1;
    zoom(distance(now) / distance(before), other.x, other.y);
  } else if (moved > 4) {
    pan(now.x - before.x, now.y - before.y);
  }
  pointers.set(event.pointerId, now);
});
for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
}
// The wheel zooms once the drawing has been clicked, or with Ctrl, which is also what a pinch on a touch pad sends; before, it
// scrolls the page.
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && document.activeElement !== canvas) return;
  event.preventDefault();
  const { x, y } = placeOf(event);
  const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
  zoom(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.002)), x, y);
}, { passive: false });

// Paper shows everything.
addEventListener("beforeprint", () => {
  canvas.setAttribute("viewBox", `0 0 ${root.width.toFixed(0)} ${root.height.toFixed(0)}`);
  view.removeAttribute("transform");
});
addEventListener("afterprint", () => {
  canvas.removeAttribute("viewBox");
  show();
});
