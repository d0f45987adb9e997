"""Role makers: who a process is in its job. They are flota's own."""

from flota.roles import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker

__all__ = ["PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker"]
