# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What real servers draw at 0, 10 … 100 % load, as published with SPECpower_ssj2008.

Each table is of the full disclosure at https://www.spec.org/power_ssj2008/results/ that its
number names (power_ssj2008-NUMBER); they were taken from the tables that CloudSim, OpenDC and
COSCO have of these. Watts, active idle first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tf_malleable.model.power import PowerCurve

# Tenths of full load at which a calibration with five points measures, as tfm power calibrate does.
CALIBRATED: Final = (0, 1, 4, 7, 10)


class Server(NamedTuple):
    """A server, the number of its result, and what it draws."""

    name: str
    result: str
    watts: tuple[float, ...]

    @property
    def curve(self) -> PowerCurve:
        """What it draws by load."""
        return PowerCurve(tuple((step / 10, watts) for step, watts in enumerate(self.watts)))


# CloudSim, OpenDC and COSCO.
SERVERS: Final = tuple(
    Server(*row)
    for row in (
        (
            "HP ML110 G4 (Xeon 3040)",
            "20110127-00342",
            (86, 89.4, 92.6, 96, 99.5, 102, 106, 108, 112, 114, 117),
        ),
        (
            "HP ML110 G5 (Xeon 3075)",
            "20110124-00339",
            (93.7, 97, 101, 105, 110, 116, 121, 125, 129, 133, 135),
        ),
        (
            "IBM x3250 (Xeon X3470)",
            "20091104-00213",
            (41.6, 46.7, 52.3, 57.9, 65.4, 73, 80.7, 89.5, 99.6, 105, 113),
        ),
        (
            "IBM x3550 (2 Xeon X5670)",
            "20100315-00239",
            (66, 107, 120, 131, 143, 156, 173, 191, 211, 229, 247),
        ),
        (
            "IBM x3550 (2 Xeon X5675)",
            "20110406-00368",
            (58.4, 98, 109, 118, 128, 140, 153, 170, 189, 205, 222),
        ),
        (
            "IBM x3650 M2 (2 Xeon X5570)",
            "20141023-00677",
            (81.4, 110, 125, 139, 153, 167, 182, 199, 214, 229, 244),
        ),
        (
            "Dell R620 (2 Xeon E5-2670)",
            "20120306-00434",
            (54.1, 78.4, 88.5, 99.5, 115, 126, 143, 165, 196, 226, 243),
        ),
        (
            "Dell R710 (2 Xeon X5670)",
            "20100727-00278",
            (64, 104, 116, 126, 137, 148, 158, 173, 190, 210, 232),
        ),
        (
            "Dell R820 (4 Xeon)",
            "20120515-00468",
            (110, 149, 167, 188, 218, 237, 268, 307, 358, 414, 446),
        ),
        (
            "Dell R740 (2 Xeon Platinum 8280)",
            "20190409-00952",
            (49.8, 114, 137, 159, 182, 208, 240, 277, 319, 376, 432),
        ),
        (
            "Dell R240 (Xeon E-2176G)",
            "20190702-00979",
            (20, 25.1, 28.5, 32.3, 36.6, 41.7, 47.5, 55.9, 67.2, 81, 93.1),
        ),
        (
            "Dell R6515 (EPYC 7702P)",
            "20200728-01041",
            (54, 123, 139, 150, 161, 169, 181, 194, 207, 218, 231),
        ),
        (
            "HPE DL345 Gen10+ (EPYC 7763)",
            "20210221-01065",
            (58, 104, 120, 134, 150, 169, 197, 217, 236, 255, 272),
        ),
        (
            "HPE DL380 Gen10+ (2 Xeon Platinum 8380)",
            "20210601-01103",
            (127, 198, 226, 253, 281, 314, 354, 405, 464, 576, 619),
        ),
    )
)
