// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
// Elements from templates. Values become text or attributes, never markup.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
