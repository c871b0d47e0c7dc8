namespace Tau
{
    /// <summary>The scenes of this project.</summary>
    public enum SceneKind
    {
        /// <summary>Pairs of an agent and its trainer that learn the answers to prompts.</summary>
        Tau = 0,

        /// <summary>Balls on tilting platforms: an ordinary ML-Agents game with physics.</summary>
        Balance = 1,

        /// <summary>A trained agent that answers typed questions.</summary>
        Inference = 2,
    }
}
