"""What all findings have in common."""

import re
from dataclasses import dataclass, field
from typing import ClassVar, Literal, dataclass_transform

from nanoscope.messages import Message, Said

Tone = Literal["good", "fair", "bad"]
Confidence = Literal["sure", "likely", "hint"]
"""How sure a verdict is: `sure` needs evidence well beyond the run's own noise, `hint` is worth a look and no more."""


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Finding:
    """Base of all findings: each subclass is a dataclass, and `code` is its name in snake_case.

    Comparison and representation are written once, here: forty generated copies would slow the start of `explain`.
    """

    code: ClassVar[str]
    TEXT: ClassVar[Said] = None

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        dataclass(eq=False, repr=False)(cls)

    def text(self) -> Said:
        """One or a few sentences, which its fields fill; None or nothing where there is nothing to say."""
        return self.TEXT

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Verdict(Finding):
    """How a run is doing: the evidence (its other fields), how sure that makes it, and what follows.

    `tone` is how alarming it is, and `lasts` whether it says how the run does now (a hint does not). One that `breaks`
    ends the run: of several runs in a log, the last that was broken is shown. A completed run may have `harmless` ones.
    It is not said beside a verdict that is named in `unless`.
    """

    confidence: Confidence = field(default="likely", kw_only=True)
    usual_tone: ClassVar[Tone]
    breaks: ClassVar[bool]
    harmless: ClassVar[bool]
    unless: "ClassVar[tuple[type[Verdict], ...]]"
    TITLE: ClassVar[Message]

    def __init_subclass__(
        cls,
        tone: Tone = "fair",
        breaks: bool = False,
        harmless: bool = False,
        unless: "tuple[type[Verdict], ...]" = (),
    ) -> None:
        super().__init_subclass__()
        cls.usual_tone, cls.breaks, cls.harmless, cls.unless = tone, breaks, harmless or tone == "good", unless

    @property
    def tone(self) -> Tone:
        return self.usual_tone

    @property
    def lasts(self) -> bool:
        return self.confidence != "hint"

    def title(self) -> Message:
        """The verdict in a few words."""
        return self.TITLE

    def heading(self) -> Message:
        """The title, with how sure it is."""
        match self.confidence:
            case "likely":
                return Message("{title} (likely)", title=self.title())
            case "hint":
                return Message("{title} (only a hint)", title=self.title())
        return self.title()
