// Elements. Texts are always text: nothing here makes HTML of a string.

type Child = Node | string | null | undefined | false;

interface Properties {
  class?: string;
  id?: string;
  title?: string;
  style?: Partial<CSSStyleDeclaration> & Record<`--${string}`, string>;
  on?: { [Event in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Event]) => void };
  [attribute: string]: unknown;
}

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  apply(element, properties);
  append(element, children);
  return element;
}

export function s<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(element, properties);
  append(element, children);
  return element;
}

function apply(element: HTMLElement | SVGElement, properties: Properties): void {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value as object)) element.addEventListener(event, handler);
    } else if (name === "style") {
      for (const [key, setting] of Object.entries(value as Record<string, string>)) {
        if (key.startsWith("--")) element.style.setProperty(key, setting);
        else (element.style as unknown as Record<string, string>)[key] = setting;
      }
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** Words in which literals stand in backticks. */
export function words(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  text.split("`").forEach((part, index) => {
    if (part) fragment.append(index % 2 === 1 ? h("code", {}, part) : part);
  });
  return fragment;
}

/** A section of the page with its heading. */
export function section(id: string, title: string, lead: string, ...children: Child[]): HTMLElement {
  const heading = h("h2", { id: `${id}-title` }, title);
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    heading,
    lead ? h("p", { class: "lead" }, words(lead)) : null,
    ...children,
  );
}

/** A heading for a figure, with what to read from it. */
export function figure(caption: string, ...children: Child[]): HTMLElement {
  return h("figure", {}, h("figcaption", {}, words(caption)), ...children);
}

/** A text that screen readers say when it changes. */
export function announcer(): { element: HTMLElement; say: (text: string) => void } {
  const element = h("p", { class: "unseen", "aria-live": "polite", role: "status" });
  return { element, say: (text) => (element.textContent = text) };
}
