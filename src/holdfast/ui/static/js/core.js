// The libraries, which are classic scripts, as modules.
const { h, render, Fragment } = window.preact;
const { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } = window.preactHooks;
const html = window.htm.bind(h);
export { html, render, Fragment, useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect };
