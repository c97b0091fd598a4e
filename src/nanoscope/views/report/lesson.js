"use strict";
/* A label that opens what its number means, beside it. */

/** @typedef {{title: string, summary: string, example: string, normal: string, mistake: string}} Lesson */

/** What a label opens, with the newest numbers: a label stays while the page around it changes. @type {Map<string, Lesson & {here: string}>} */
const lessons = new Map();

/**
 * The text of a label; a button if there is a concept behind it.
 * @param {string} text @param {string | undefined} concept @param {any} run @param {any} words @param {Frame} frame
 * @returns {Node | string}
 */
function lessonLabel(text, concept, run, words, frame) {
  const lesson = frame.lessons[concept || ""];
  if (!lesson || frame.onPaper) return text;
  const key = `${run.name}\n${concept}`;
  lessons.set(key, { ...lesson, here: words.here[concept || ""] });
  return makeButton({ class: "lesson-label", "aria-haspopup": "dialog", "data-lesson": key }, (event) => {
    event.preventDefault();
    openLesson(/** @type {HTMLElement} */ (event.currentTarget), key, frame.labels);
  }, text);
}

/** @param {HTMLElement} button @param {string} key @param {Record<string, string>} labels */
function openLesson(button, key, labels) {
  const lesson = /** @type {Lesson & {here: string}} */ (lessons.get(key));
  const paragraphs = [make("p", {}, lesson.summary)];
  if (lesson.here || lesson.example) paragraphs.push(make("p", { class: "here" }, lesson.here || lesson.example));
  for (const part of /** @type {const} */ (["normal", "mistake"])) paragraphs.push(make("p", {}, make("strong", {}, labels[`lesson_${part}`]), make("br"), lesson[part]));
  const place = button.getBoundingClientRect();
  const dialog = openDialog(lesson.title, labels.close, ...paragraphs);
  dialog.classList.add("lesson");
  dialog.addEventListener("close", () => {
    // Newer numbers may have put another button in the place of the one that was pressed.
    const again = button.isConnected ? button : [...document.querySelectorAll(".lesson-label")].find((other) => other.getAttribute("data-lesson") === key);
    if (again) /** @type {HTMLElement} */ (again).focus();
  });
  if (innerWidth < PHONE) return; // a sheet at the lower edge
  const { offsetWidth: width, offsetHeight: height } = dialog;
  const start = document.documentElement.dir === "rtl" ? place.right - width : place.left;
  const below = place.bottom + 6;
  dialog.style.left = `${Math.max(12, Math.min(start, innerWidth - width - 12))}px`;
  dialog.style.top = `${below + height <= innerHeight - 12 ? below : Math.max(12, place.top - 6 - height)}px`;
}
