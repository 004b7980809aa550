from .captured import CapturedFunction as CapturedFunction
from .captured import capture as capture
from .captured import run as run
from .policies import apply as apply
from .policies import names as names
from .scans import plan_scans as plan_scans
