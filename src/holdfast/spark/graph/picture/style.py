"""The colours and letters of a picture. The names are our own: in a notebook they hold for the whole page."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
.hf-graph{max-width:none;font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
.hf-ground{fill:#f6f8fb}
.hf-frame{fill:#e9eef5;stroke:#c9d2de}
.hf-box{fill:#ffffff;stroke-width:1.5}
.hf-source{stroke:#5b6b7f}
.hf-step{stroke:#1f6fd1}
.hf-sink{stroke:#23874f}
.hf-title{font-size:14px;font-weight:600;fill:#1b2733}
.hf-line{font-size:11.5px;fill:#1b2733}
.hf-word,.hf-note{font-size:11.5px;fill:#5a6878}
.hf-wire{fill:none;stroke:#7a8594;stroke-width:1.5}
.hf-reach{fill:none;stroke:#7a8594;stroke-width:12;stroke-opacity:0}
.hf-tip{fill:#7a8594}
.hf-label{font-size:11.5px;fill:#3d4a5a;text-anchor:middle}
@media (prefers-color-scheme:dark){
.hf-ground{fill:#12171e}
.hf-frame{fill:#1b222c;stroke:#38444f}
.hf-box{fill:#0d1117}
.hf-source{stroke:#8b98a8}
.hf-step{stroke:#4f94e6}
.hf-sink{stroke:#3fa66c}
.hf-title,.hf-line{fill:#e6edf3}
.hf-word,.hf-note{fill:#98a5b3}
.hf-label{fill:#c3ccd6}
}
"""
