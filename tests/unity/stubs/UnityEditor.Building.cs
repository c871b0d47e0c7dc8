// Stand-ins for UnityEditor: building players, and what the build report says.
using System;
using UnityEngine;
using Object = UnityEngine.Object;

namespace UnityEditor
{
    public enum BuildTarget
    {
        StandaloneOSX = 2,
        StandaloneWindows = 5,
        iOS = 9,
        Android = 13,
        StandaloneWindows64 = 19,
        WebGL = 20,
        StandaloneLinux64 = 24,
        NoTarget = -2,
    }

    public enum BuildTargetGroup
    {
        Unknown = 0,
        Standalone = 1,
        iOS = 4,
        Android = 7,
        WebGL = 13,
    }

    public enum StandaloneBuildSubtarget
    {
        NoSubtarget = -1,
        Player = 0,
        Server = 1,
    }

    public enum ScriptingImplementation
    {
        Mono2x = 0,
        IL2CPP = 1,
    }

    [Flags]
    public enum BuildOptions
    {
        None = 0,
        Development = 1,
        AutoRunPlayer = 4,
        ShowBuiltPlayer = 8,
        AllowDebugging = 512,
        StrictMode = 2097152,
    }

    public struct BuildPlayerOptions
    {
        public string[] scenes { get; set; }

        public string locationPathName { get; set; }

        public string assetBundleManifestPath { get; set; }

        public BuildTargetGroup targetGroup { get; set; }

        public BuildTarget target { get; set; }

        public int subtarget { get; set; }

        public BuildOptions options { get; set; }

        public string[] extraScriptingDefines { get; set; }
    }

    public class BuildPipeline
    {
        public static bool isBuildingPlayer => default;

        public static Build.Reporting.BuildReport BuildPlayer(BuildPlayerOptions buildPlayerOptions) => default;

        public static BuildTargetGroup GetBuildTargetGroup(BuildTarget platform) => default;

        public static string GetPlaybackEngineDirectory(BuildTarget target, BuildOptions options) => default;

        public static bool IsBuildTargetSupported(BuildTargetGroup buildTargetGroup, BuildTarget target) => default;
    }

    public class EditorBuildSettingsScene
    {
        public EditorBuildSettingsScene() { }

        public EditorBuildSettingsScene(string path, bool enabled) { }

        public bool enabled { get; set; }

        public string path { get; set; }
    }

    public class EditorBuildSettings : Object
    {
        public static event Action sceneListChanged
        {
            add { }
            remove { }
        }

        public static EditorBuildSettingsScene[] scenes { get; set; }
    }

    public class EditorUserBuildSettings : Object
    {
        public static BuildTarget activeBuildTarget => default;

        public static bool development { get; set; }

        public static StandaloneBuildSubtarget standaloneBuildSubtarget { get; set; }

        public static bool SwitchActiveBuildTarget(BuildTargetGroup targetGroup, BuildTarget target) => default;

        public static bool SwitchActiveBuildTarget(
            Build.NamedBuildTarget namedBuildTarget, BuildTarget target) => default;
    }

    public sealed class PlayerSettings : Object
    {
        public static string companyName { get; set; }

        public static string productName { get; set; }

        public static string bundleVersion { get; set; }

        public static bool runInBackground { get; set; }

        public static ScriptingImplementation GetScriptingBackend(Build.NamedBuildTarget buildTarget) => default;

        public static void SetScriptingBackend(
            Build.NamedBuildTarget buildTarget, ScriptingImplementation backend) { }
    }
}

namespace UnityEditor.Build
{
    public readonly struct NamedBuildTarget : IEquatable<NamedBuildTarget>
    {
        public static readonly NamedBuildTarget Unknown;
        public static readonly NamedBuildTarget Standalone;
        public static readonly NamedBuildTarget Server;

        public string TargetName => default;

        public static bool operator ==(NamedBuildTarget lhs, NamedBuildTarget rhs) => default;

        public static bool operator !=(NamedBuildTarget lhs, NamedBuildTarget rhs) => default;

        public bool Equals(NamedBuildTarget other) => default;

        public override bool Equals(object obj) => default;

        public override int GetHashCode() => default;
    }

    public class BuildFailedException : Exception
    {
        public BuildFailedException(string message) { }

        public BuildFailedException(Exception innerException) { }
    }
}

namespace UnityEditor.Build.Reporting
{
    public enum BuildResult
    {
        Unknown = 0,
        Succeeded = 1,
        Failed = 2,
        Cancelled = 3,
    }

    public struct BuildSummary
    {
        public DateTime buildStartedAt => default;

        public DateTime buildEndedAt => default;

        public BuildTarget platform => default;

        public BuildTargetGroup platformGroup => default;

        public BuildOptions options => default;

        public string outputPath => default;

        public ulong totalSize => default;

        public TimeSpan totalTime => default;

        public int totalErrors => default;

        public int totalWarnings => default;

        public BuildResult result => default;
    }

    public struct BuildStep
    {
        public string name => default;

        public TimeSpan duration => default;

        public BuildStepMessage[] messages => default;

        public int depth => default;
    }

    public struct BuildStepMessage
    {
        public LogType type => default;

        public string content => default;
    }

    public sealed class BuildReport : Object
    {
        public BuildStep[] steps => default;

        public BuildSummary summary => default;
    }
}
