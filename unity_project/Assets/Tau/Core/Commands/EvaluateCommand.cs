namespace Tau.Core
{
    /// <summary>`evaluate`: show the model every held-out row once.</summary>
    public sealed class EvaluateCommand : ConsoleCommand
    {
    }
}
