namespace Tau.Engine
{
    /// <summary>What the trainer's reply asks of the engine (<c>CommandProto</c>).</summary>
    internal enum TrainerCommand
    {
        /// <summary>Go on with the actions.</summary>
        Step = 0,

        /// <summary>Begin all episodes anew.</summary>
        Reset = 1,

        /// <summary>End.</summary>
        Quit = 2,
    }
}
